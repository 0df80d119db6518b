"""OpenNMT-py 3.5.1 by its own inference engine, the one behind `onmt_translate`.

It puts no end mark after a source, so ours is its last word. It knows pre-norm only.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from onmt.inference_engine import InferenceEnginePY
from onmt.opts import train_opts, translate_opts
from onmt.utils.parse import ArgumentParser

from decoders import words
from decoders.weights import Stack, positions, read, renamed, require, tables
from exercise import Exercise

READS_TEXT = False
BATCHES = (200, 100)  # sentences at once, greedily and with beams
MARKS = ["<blank>", "<unk>", "<s>", "</s>"]
_BLOCK = {
    "self.query": "self_attn.linear_query",
    "self.key": "self_attn.linear_keys",
    "self.value": "self_attn.linear_values",
    "self.combine": "self_attn.final_linear",
    "cross.query": "context_attn.linear_query",
    "cross.key": "context_attn.linear_keys",
    "cross.value": "context_attn.linear_values",
    "cross.combine": "context_attn.final_linear",
    "cross.norm": "layer_norm_2",
    "expand": "feed_forward.w_1",
    "contract": "feed_forward.w_2",
    "feedforward.norm": "feed_forward.layer_norm",
}
ENCODER = Stack("encoder.transformer", "encoder.layer_norm", _BLOCK | {"self.norm": "layer_norm"})
DECODER = Stack(
    "decoder.transformer_layers", "decoder.layer_norm", _BLOCK | {"self.norm": "layer_norm_1"}
)


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """Loaded from a checkpoint of its own kind."""
    require(exercise.config, norm_order="pre")
    checkpoint = exercise.place("opennmt") / "model.pt"
    write_checkpoint(checkpoint, exercise)
    torch.serialization.add_safe_globals([Namespace])  # its checkpoints hold its options as one
    engine = InferenceEnginePY(_translate_options(checkpoint, exercise))

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        lines = [f"{words.text(ids)} </s>".strip() for ids in sentences]
        _, found = engine.infer_list(lines)
        return [words.ids(best) for best, *_ in found]

    return translate


def write_checkpoint(path: Path, exercise: Exercise) -> None:
    """The same weights as a checkpoint of OpenNMT-py."""
    ours = read(exercise.weights)
    source, target, output = tables(ours)
    model = renamed(ours, encoder=ENCODER, decoder=DECODER)
    places = torch.from_numpy(positions(exercise.config, 5000)).unsqueeze(1)
    for side, table in (("encoder", source), ("decoder", target)):
        model[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = table
        model[f"{side}.embeddings.make_embedding.pe.pe"] = places
    generator = {"weight": output, "bias": torch.zeros(len(output))}
    vocabulary = words.vocabulary(exercise.vocabulary, MARKS)
    vocabularies = {"src": vocabulary, "tgt": vocabulary, "data_task": "seq2seq"}
    options = _model_options(exercise)
    tree = {"model": model, "generator": generator, "vocab": vocabularies, "opt": options}
    torch.save(tree, path)


def _model_options(exercise: Exercise) -> Any:
    config = exercise.config
    options = {
        "enc_layers": config["encoder_layers"],
        "dec_layers": config["decoder_layers"],
        "heads": config["heads"],
        "hidden_size": config["width"],
        "word_vec_size": config["width"],
        "transformer_ff": config["feedforward_width"],
        "pos_ffn_activation_fn": config["activation"],
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "norm_eps": 1e-5,
        # asked for, and of no use here
        "data": "{}",
        "src_vocab": "none",
    }
    flags = ["position_encoding", "add_qkvbias", "add_ffnbias"]
    parser = ArgumentParser()
    train_opts(parser)
    told = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    found = parser.parse_args([*told, *(f"-{flag}" for flag in flags)])
    found.share_embeddings = found.share_decoder_embeddings = False  # each has its table by name
    return found


def _translate_options(checkpoint: Path, exercise: Exercise) -> Any:
    options = {
        "model": checkpoint,
        "src": "none",
        "output": "/dev/null",
        "beam_size": exercise.beam_size,
        "batch_size": exercise.at_once(*BATCHES),
        "max_length_ratio": 2,
        "length_penalty": "avg",
    }
    parser = ArgumentParser()
    translate_opts(parser)
    found = parser.parse_args([w for n, value in options.items() for w in (f"-{n}", str(value))])
    ArgumentParser.validate_translate_opts(found)
    ArgumentParser._get_all_transform_translate(found)
    ArgumentParser._validate_transforms_opts(found)
    ArgumentParser.validate_translate_opts_dynamic(found)
    return found

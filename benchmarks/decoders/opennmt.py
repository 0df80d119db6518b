"""OpenNMT-py 3.5.1 with its inference engine, as in `onmt_translate`.

It appends no EOS to a source, so EOS is part of its input. It supports only pre-norm models.
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

from decoders import token_words
from decoders.weights import (
    Stack,
    embedding_tables,
    position_table,
    read_weights,
    rename_weights,
    require_supported,
)
from decoding_task import DecodingTask

READS_TEXT = False
BATCH_SIZES = (200, 100)  # sentences, for greedy and for beam search
SPECIAL_TOKENS = ["<blank>", "<unk>", "<s>", "</s>"]
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


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function; the model is loaded from an OpenNMT-py checkpoint."""
    require_supported(task.config, norm_order="pre")
    checkpoint = task.make_folder("opennmt") / "model.pt"
    write_checkpoint(checkpoint, task)
    torch.serialization.add_safe_globals([Namespace])  # checkpoints contain options
    translator = InferenceEnginePY(_translate_options(checkpoint, task))

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        lines = [f"{token_words.to_text(ids)} </s>".strip() for ids in sentences]
        _, hypotheses = translator.infer_list(lines)
        return [token_words.to_ids(best) for best, *_ in hypotheses]

    return translate


def write_checkpoint(path: Path, task: DecodingTask) -> None:
    """Write the weights as a checkpoint of OpenNMT-py."""
    ours = read_weights(task.weights)
    source, target, output = embedding_tables(ours)
    model = rename_weights(ours, encoder=ENCODER, decoder=DECODER)
    pe = torch.from_numpy(position_table(task.config, 5000)).unsqueeze(1)
    for side, table in (("encoder", source), ("decoder", target)):
        model[f"{side}.embeddings.make_embedding.emb_luts.0.weight"] = table
        model[f"{side}.embeddings.make_embedding.pe.pe"] = pe
    generator = {"weight": output, "bias": torch.zeros(len(output))}
    vocabulary = token_words.vocabulary(task.vocabulary, SPECIAL_TOKENS)
    vocabularies = {"src": vocabulary, "tgt": vocabulary, "data_task": "seq2seq"}
    options = _model_options(task)
    tree = {"model": model, "generator": generator, "vocab": vocabularies, "opt": options}
    torch.save(tree, path)


def _model_options(task: DecodingTask) -> Any:
    config = task.config
    options = {
        "enc_layers": config["num_encoder_layers"],
        "dec_layers": config["num_decoder_layers"],
        "heads": config["num_heads"],
        "hidden_size": config["d_model"],
        "word_vec_size": config["d_model"],
        "transformer_ff": config["ffn_dim"],
        "pos_ffn_activation_fn": config["activation"],
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "norm_eps": 1e-5,
        # required, but unused
        "data": "{}",
        "src_vocab": "none",
    }
    flags = ["position_encoding", "add_qkvbias", "add_ffnbias"]
    parser = ArgumentParser()
    train_opts(parser)
    arguments = [word for name, value in options.items() for word in (f"-{name}", str(value))]
    parsed = parser.parse_args([*arguments, *(f"-{flag}" for flag in flags)])
    parsed.share_embeddings = parsed.share_decoder_embeddings = False  # each table is stored
    return parsed


def _translate_options(checkpoint: Path, task: DecodingTask) -> Any:
    options = {
        "model": checkpoint,
        "src": "none",
        "output": "/dev/null",
        "beam_size": task.beam_size,
        "batch_size": task.choose_batch_size(*BATCH_SIZES),
        "max_length_ratio": 2,
        "length_penalty": "avg",
    }
    parser = ArgumentParser()
    translate_opts(parser)
    parsed = parser.parse_args([w for n, value in options.items() for w in (f"-{n}", str(value))])
    ArgumentParser.validate_translate_opts(parsed)
    ArgumentParser._get_all_transform_translate(parsed)
    ArgumentParser._validate_transforms_opts(parsed)
    ArgumentParser.validate_translate_opts_dynamic(parsed)
    return parsed

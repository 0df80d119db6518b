"""eole by its own inference engine, the one behind `eole predict`.

Like OpenNMT-py, it puts no end mark after a source, so ours is its last word, and it knows
pre-norm only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from eole.config.run import PredictConfig
from eole.inference_engine import InferenceEnginePY
from safetensors.torch import save_file

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
    "self.norm": "input_layernorm",
    "cross.query": "context_attn.linear_query",
    "cross.key": "context_attn.linear_keys",
    "cross.value": "context_attn.linear_values",
    "cross.combine": "context_attn.final_linear",
    "cross.norm": "precontext_layernorm",
    "expand": "mlp.gate_up_proj",
    "contract": "mlp.down_proj",
    "feedforward.norm": "post_attention_layernorm",
}


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """Loaded from a model folder of its own kind."""
    require(exercise.config, norm_order="pre")
    folder = exercise.place("eole")
    write_folder(folder, exercise)
    config = PredictConfig(
        model_path=str(folder),
        src="none",
        beam_size=exercise.beam_size,
        batch_size=exercise.at_once(*BATCHES),
        world_size=1,
        gpu_ranks=[],
        compute_dtype="fp32",
    )
    engine = InferenceEnginePY(config)

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        lines = [f"{words.text(ids)} </s>".strip() for ids in sentences]
        _, _, found = engine.infer_list(lines)
        return [words.ids(best) for best, *_ in found]

    return translate


def write_folder(folder: Path, exercise: Exercise) -> None:
    """The same weights as a model folder of eole."""
    ours = read(exercise.weights)
    source, target, output = tables(ours)
    model = renamed(
        ours,
        encoder=Stack("encoder.transformer_layers", "encoder.layer_norm", _BLOCK),
        decoder=Stack("decoder.transformer_layers", "decoder.layer_norm", _BLOCK),
    )
    places = torch.from_numpy(positions(exercise.config, 5000)).unsqueeze(1)
    for side, table in (("src", source), ("tgt", target)):
        model[f"{side}_emb.embeddings.weight"] = table
        model[f"{side}_emb.pe.pe"] = places
    for number in range(exercise.config["decoder_layers"]):
        model[f"decoder.transformer_layers.{number}.layer_scalar"] = torch.ones(1)
    model |= {"generator.weight": output, "generator.bias": torch.zeros(len(output))}
    save_file({n: tensor.clone() for n, tensor in model.items()}, folder / "model.00.safetensors")
    vocabulary = words.vocabulary(exercise.vocabulary, MARKS)
    kinds = ["pad", "unk", "bos", "eos"]
    marks = {f"{kind}_token": mark for kind, mark in zip(kinds, MARKS, strict=True)}
    tree = {"src": vocabulary, "tgt": vocabulary, "decoder_start_token": "<s>", "specials": marks}
    (folder / "vocab.json").write_text(json.dumps(tree))
    (folder / "config.json").write_text(json.dumps(_config(exercise)))


def _config(exercise: Exercise) -> dict[str, Any]:
    config = exercise.config
    size = {
        "heads": config["heads"],
        "hidden_size": config["width"],
        "transformer_ff": config["feedforward_width"],
        "mlp_activation_fn": config["activation"],
        "add_qkvbias": True,
        "add_ffnbias": True,
    }
    width, places = config["width"], {"position_encoding_type": "SinusoidalInterleaved"}
    model = {
        "architecture": "transformer",
        **size,
        **places,
        "encoder": {
            "encoder_type": "transformer",
            "layers": config["encoder_layers"],
            "src_word_vec_size": width,
            **size,
            **places,
        },
        "decoder": {
            "decoder_type": "transformer",
            "layers": config["decoder_layers"],
            "tgt_word_vec_size": width,
            "with_cross_attn": True,
            **size,
            **places,
        },
        "embeddings": {"src_word_vec_size": width, "tgt_word_vec_size": width, **places},
    }
    asked_for = {"src_vocab": "none", "training": {"compute_dtype": "torch.float32"}}
    return {"model": model, "share_vocab": True, **asked_for}

"""JoeyNMT 2.3 by what is behind `python -m joeynmt translate`: a stream of lines, and `predict`.

It keeps no keys and values from step to step, and does not sort by length, which takes so long
that it gets the first sentences only. Its vocabulary begins with other marks, so our tables are
put in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from joeynmt.config import parse_global_args
from joeynmt.prediction import predict, prepare
from torch import nn

from decoders import words
from decoders.weights import Stack, Weights, positions, read, renamed, require, tables
from exercise import Exercise

READS_TEXT = False
BATCHES = (64, 64)  # sentences at once, greedily and with beams
AT_MOST = 200  # sentences
MARKS = ["<unk>", "<pad>", "<s>", "</s>"]
_ORDER = [words.UNKNOWN, words.PAD, words.START, words.END]  # its ids to ours
_BLOCK = {
    "expand": "feed_forward.pwff_layer.0",
    "contract": "feed_forward.pwff_layer.3",
    "feedforward.norm": "feed_forward.layer_norm",
    **{f"cross.{part}": f"src_trg_att.{part[0]}_layer" for part in ("query", "key", "value")},
    "cross.combine": "src_trg_att.output_layer",
    "cross.norm": "dec_layer_norm",
}


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """Loaded from a model folder of its own kind."""
    require(exercise.config)
    folder = exercise.place("joeynmt")
    vocabulary = [*MARKS, *words.vocabulary(exercise.vocabulary)[len(MARKS) :]]
    (folder / "words").write_text("".join(f"{word}\n" for word in vocabulary))
    torch.save({"model_state": _weights(exercise)}, folder / "best.ckpt")
    args = parse_global_args(_config(folder, exercise), rank=0, mode="translate")
    model, _, _, stream = prepare(args, rank=0, mode="translate")
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        stream.reset_cache()
        for ids in sentences:
            stream.set_item(words.text(ids))
        _, _, written, *_ = predict(
            model=model,
            data=stream,
            device=args.device,
            n_gpu=0,
            normalization="none",
            args=args.test,
            autocast=args.autocast,
        )
        return [words.ids(line) for line in written]

    return translate


def _weights(exercise: Exercise) -> Weights:
    ours = read(exercise.weights)
    stacks = {
        side: Stack(f"{side}.layers", f"{side}.layer_norm", _layers(name, norm))
        for side, name, norm in (
            ("encoder", "src_src_att", "layer_norm"),
            ("decoder", "trg_trg_att", "x_layer_norm"),
        )
    }
    found = renamed(ours, **stacks)
    names = ["src_embed.lut", "trg_embed.lut", "decoder.output_layer"]
    for name, table in zip(names, tables(ours), strict=True):
        found[f"{name}.weight"] = torch.cat([table[_ORDER], table[len(_ORDER) :]])
    places = torch.from_numpy(positions(exercise.config, 5000)).unsqueeze(0)
    return found | {"encoder.pe.pe": places, "decoder.pe.pe": places}


def _layers(attention: str, norm: str) -> dict[str, str]:
    parts = {f"self.{part}": f"{attention}.{part[0]}_layer" for part in ("query", "key", "value")}
    return {**_BLOCK, **parts, "self.combine": f"{attention}.output_layer", "self.norm": norm}


def _config(folder: Path, exercise: Exercise) -> dict[str, Any]:
    config = exercise.config
    side = {
        "type": "transformer",
        "num_heads": config["heads"],
        "embeddings": {"embedding_dim": config["width"], "scale": config["scale_embedding"]},
        "hidden_size": config["width"],
        "ff_size": config["feedforward_width"],
        "dropout": 0.0,
        "layer_norm": config["norm_order"],
        "activation": config["activation"],
    }
    names = ["unk", "pad", "bos", "eos"]
    symbols: dict[str, Any] = {f"{n}_token": mark for n, mark in zip(names, MARKS, strict=True)}
    symbols |= {f"{name}_id": number for number, name in enumerate(names)}
    text = {"level": "word", "voc_file": str(folder / "words"), "lowercase": False}
    return {
        "name": "contest",
        "model_dir": str(folder),
        "use_cuda": False,
        "data": {
            "dataset_type": "stream",
            "test": "none",  # asked for, and of no use here
            "src": {"lang": "source", **text},
            "trg": {"lang": "target", **text},
            "special_symbols": symbols,
        },
        "model": {
            "encoder": {**side, "num_layers": config["encoder_layers"]},
            "decoder": {**side, "num_layers": config["decoder_layers"]},
        },
        "training": {"batch_size": 1},  # likewise
        "testing": {
            "load_model": str(folder / "best.ckpt"),
            "batch_size": exercise.at_once(*BATCHES),
            "batch_type": "sentence",
            "beam_size": exercise.beam_size,
            "beam_alpha": 1.0,
        },
    }

"""JoeyNMT 2.3 with its data stream and `predict`, as in `python -m joeynmt translate`.

It has no KV cache and does not sort by length, which is so slow that it translates only the first
sentences. Its vocabulary has another order of special tokens, so the embedding tables are
reordered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from joeynmt.config import parse_global_args
from joeynmt.prediction import predict, prepare
from torch import nn

from decoders import token_words
from decoders.weights import (
    Stack,
    Weights,
    embedding_tables,
    position_table,
    read_weights,
    rename_weights,
    require_supported,
)
from decoding_task import DecodingTask

READS_TEXT = False
BATCH_SIZES = (64, 64)  # sentences, for greedy and for beam search
MAX_SENTENCES = 200
SPECIAL_TOKENS = ["<unk>", "<pad>", "<s>", "</s>"]
_ORDER = [
    token_words.UNK,
    token_words.PAD,
    token_words.BOS,
    token_words.EOS,
]  # JoeyNMT's ids to regard's
_BLOCK = {
    "expand": "feed_forward.pwff_layer.0",
    "contract": "feed_forward.pwff_layer.3",
    "feedforward.norm": "feed_forward.layer_norm",
    **{f"cross.{part}": f"src_trg_att.{part[0]}_layer" for part in ("query", "key", "value")},
    "cross.combine": "src_trg_att.output_layer",
    "cross.norm": "dec_layer_norm",
}


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function; the model is loaded from a folder in JoeyNMT's format."""
    require_supported(task.config)
    folder = task.make_folder("joeynmt")
    vocabulary = [*SPECIAL_TOKENS, *token_words.vocabulary(task.vocabulary)[len(SPECIAL_TOKENS) :]]
    (folder / "words").write_text("".join(f"{word}\n" for word in vocabulary))
    torch.save({"model_state": _weights(task)}, folder / "best.ckpt")
    args = parse_global_args(_config(folder, task), rank=0, mode="translate")
    model, _, _, stream = prepare(args, rank=0, mode="translate")
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        stream.reset_cache()
        for ids in sentences:
            stream.set_item(token_words.to_text(ids))
        _, _, outputs, *_ = predict(
            model=model,
            data=stream,
            device=args.device,
            n_gpu=0,
            normalization="none",
            args=args.test,
            autocast=args.autocast,
        )
        return [token_words.to_ids(line) for line in outputs]

    return translate


def _weights(task: DecodingTask) -> Weights:
    ours = read_weights(task.weights)
    stacks = {
        side: Stack(f"{side}.layers", f"{side}.layer_norm", _layers(name, norm))
        for side, name, norm in (
            ("encoder", "src_src_att", "layer_norm"),
            ("decoder", "trg_trg_att", "x_layer_norm"),
        )
    }
    weights = rename_weights(ours, **stacks)
    names = ["src_embed.lut", "trg_embed.lut", "decoder.output_layer"]
    for name, table in zip(names, embedding_tables(ours), strict=True):
        weights[f"{name}.weight"] = torch.cat([table[_ORDER], table[len(_ORDER) :]])
    pe = torch.from_numpy(position_table(task.config, 5000)).unsqueeze(0)
    return weights | {"encoder.pe.pe": pe, "decoder.pe.pe": pe}


def _layers(attention: str, norm: str) -> dict[str, str]:
    parts = {f"self.{part}": f"{attention}.{part[0]}_layer" for part in ("query", "key", "value")}
    return {**_BLOCK, **parts, "self.combine": f"{attention}.output_layer", "self.norm": norm}


def _config(folder: Path, task: DecodingTask) -> dict[str, Any]:
    config = task.config
    side = {
        "type": "transformer",
        "num_heads": config["num_heads"],
        "embeddings": {"embedding_dim": config["d_model"], "scale": config["scale_embedding"]},
        "hidden_size": config["d_model"],
        "ff_size": config["ffn_dim"],
        "dropout": 0.0,
        "layer_norm": config["norm_order"],
        "activation": config["activation"],
    }
    names = ["unk", "pad", "bos", "eos"]
    tokens = zip(names, SPECIAL_TOKENS, strict=True)
    symbols: dict[str, Any] = {f"{name}_token": token for name, token in tokens}
    symbols |= {f"{name}_id": number for number, name in enumerate(names)}
    text = {"level": "word", "voc_file": str(folder / "words"), "lowercase": False}
    return {
        "name": "comparison",
        "model_dir": str(folder),
        "use_cuda": False,
        "data": {
            "dataset_type": "stream",
            "test": "none",  # required, but unused
            "src": {"lang": "source", **text},
            "trg": {"lang": "target", **text},
            "special_symbols": symbols,
        },
        "model": {
            "encoder": {**side, "num_layers": config["num_encoder_layers"]},
            "decoder": {**side, "num_layers": config["num_decoder_layers"]},
        },
        "training": {"batch_size": 1},  # required, but unused
        "testing": {
            "load_model": str(folder / "best.ckpt"),
            "batch_size": task.choose_batch_size(*BATCH_SIZES),
            "batch_type": "sentence",
            "beam_size": task.beam_size,
            "beam_alpha": 1.0,
        },
    }

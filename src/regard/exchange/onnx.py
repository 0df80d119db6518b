"""To ONNX: a folder that onnxruntime runs, with this package or without it.

encoder.onnx    tokens (B, S), lengths (B,) -> memory.I.keys, memory.I.values (B, H, S, d)
decoder.onnx    tokens (B, W), lengths (B,), memory.I..., past.I.keys, past.I.values (B, W, H, T, d)
                -> logits (B, W, V), present.I.keys, present.I.values (B, W, H, T + 1, d)
onnx.json       the format of these two
config.json     and the tokenizer: those of the model folder; the tokenizer normalizes by itself

I counts the layers of the decoder. A step reads one token for each of W beams of a sentence. The
first step has a past of length 0, and each one's `present` is the past of the next.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from regard.exchange.digests import write_digests
from regard.exchange.normalizer import write_self_normalizing
from regard.exchange.onnx_graphs import DecoderGraph, EncoderGraph
from regard.exchange.requirements import need, refuse
from regard.files import whole_folder, write_json
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder
from regard.models.transformer import Transformer, TransformerConfig

FORMAT = 1
ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder.onnx", "onnx.json"
_OPSET = 18  # which PyTorch's exporter is written in, and onnxruntime knows since 1.14
_LARGEST = 2_000_000_000  # bytes of weights in a file; a graph of more than 2 GiB cannot be one

Axes = dict[int, str]  # the names of the axes of a tensor that are of any length


def write_onnx(folder: ModelFolder, model: Model, out: Path) -> None:
    """Write a model that lies on the CPU as a folder for onnxruntime, whole or not at all."""
    need("onnx", "onnxscript", extra="onnx")
    refuse(problems(model.config), "This model cannot be written as ONNX")
    assert isinstance(model, Transformer), "it has no problems"
    with whole_folder(out) as temporary:
        _write_graphs(model.eval(), temporary)
        write_json(temporary / DESCRIPTION, {"format": FORMAT})
        folder.write(temporary)
        write_self_normalizing(folder.tokenizers, temporary)
        write_digests(temporary)


def problems(config: ModelConfig) -> Iterator[str]:
    """Every reason why a model cannot be written; none: it can."""
    if not isinstance(config, TransformerConfig):
        yield f"model.kind is {config.kind}; its graphs are those of a transformer"
    elif config.feedforward == "convolution":
        yield (
            "model.feedforward is convolution, whose steps remember more than keys and values; "
            "train with model.feedforward=linear or gated"
        )


def names(kind: Literal["memory", "past", "present"], layers: int) -> list[str]:
    """What the keys and values of each layer are called."""
    return [f"{kind}.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]


@torch.no_grad()
def _write_graphs(model: Transformer, folder: Path) -> None:
    """Both graphs, each traced with a small batch."""
    layers = model.config.decoder_layers
    tokens, lengths = torch.zeros(3, 7, dtype=torch.long), torch.tensor([7, 5, 2])
    encoder = EncoderGraph(model)
    memory = [part.contiguous() for part in encoder(tokens, lengths)]
    past = [torch.stack([part] * 4, 1)[:, :, :, :5].contiguous() for part in memory]
    batch: Axes = {0: "batch"}
    with _silence():
        _write_graph(
            encoder,
            folder / ENCODER,
            (tokens, lengths),
            ({**batch, 1: "source"}, batch),
            (["tokens", "lengths"], names("memory", layers)),
        )
        beams: Axes = {**batch, 1: "beams"}
        axes = [{**batch, 2: "source"}] * len(memory), [{**beams, 3: "past"}] * len(past)
        _write_graph(
            DecoderGraph(model),
            folder / DECODER,
            (tokens[:, :4].contiguous(), lengths, memory, past),
            (beams, batch, *axes),
            (
                ["tokens", "lengths", *names("memory", layers), *names("past", layers)],
                ["logits", *names("present", layers)],
            ),
        )


def _write_graph(
    graph: nn.Module,
    path: Path,
    example: tuple[Any, ...],
    axes: tuple[Axes | list[Axes], ...],
    ends: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Trace and translate; an axis that would be of one length only is an error here."""
    dims = {name: torch.export.Dim(name) for name in ("batch", "beams", "source", "past")}

    def of(given: Axes | list[Axes]) -> Any:
        if isinstance(given, list):
            return [of(one) for one in given]
        return {axis: dims[name] for axis, name in given.items()}

    traced = torch.export.export(
        graph,
        example,
        dynamic_shapes=tuple(map(of, axes)),
        strict=True,  # or `len` of a tensor would be the example's
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    size = sum(weights.numel() * weights.element_size() for weights in graph.parameters())
    program = torch.onnx.export(
        traced,
        input_names=ends[0],
        output_names=ends[1],
        opset_version=_OPSET,
        dynamic_shapes=axes,  # for the names alone
        custom_translation_table={torch.ops.aten.cos.default: _cosine},
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # where each line of our code lies on this machine
    program.save(path, external_data=size > _LARGEST)


def _cosine(x: Any) -> Any:
    """As a sine, which onnxruntime has long had in float64; its cosine is of version 1.29."""
    from onnxscript import opset18

    return opset18.Sin(opset18.Add(x, math.pi / 2))


@contextmanager
def _silence() -> Iterator[None]:
    """PyTorch's exporter tells much that is nobody's concern."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

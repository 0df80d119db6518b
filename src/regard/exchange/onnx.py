"""Export to ONNX: a folder that onnxruntime can run with or without regard.

encoder.onnx    tokens (B, S), lengths (B,) -> memory.I.keys, memory.I.values (B, H, S, d)
decoder.onnx    tokens (B, W), lengths (B,), memory.I..., past.I.keys, past.I.values (B, W, H, T, d)
                -> logits (B, W, V), present.I.keys, present.I.values (B, W, H, T + 1, d)
onnx.json       the format version of these graphs
config.json     config and tokenizer of the model folder; the tokenizer includes normalization

I is the index of a decoder layer; memory.I are cross-attention keys and values. A step reads one
token for each of W beams of a sentence. The first step has a past of length 0; the `present` of a
step is the `past` of the next.
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
from regard.exchange.normalizer import write_tokenizers_with_normalizer
from regard.exchange.onnx_graphs import DecoderGraph, EncoderGraph
from regard.exchange.requirements import raise_problems, require_packages
from regard.files import atomic_folder, write_json
from regard.models.base import Model, ModelConfig
from regard.models.folder import ModelFolder
from regard.models.transformer import Transformer, TransformerConfig

FORMAT = 1
ENCODER, DECODER, DESCRIPTION = "encoder.onnx", "decoder.onnx", "onnx.json"
_OPSET = 18  # used by PyTorch's exporter, supported since onnxruntime 1.14
_MAX_FILE_SIZE = 2_000_000_000  # bytes of weights in a graph file, which is limited to 2 GiB

Axes = dict[int, str]  # names of a tensor's dynamic axes


def export_onnx(folder: ModelFolder, model: Model, out: Path) -> None:
    """Write a model, which must be on the CPU, as an ONNX folder."""
    require_packages("onnx", "onnxscript", extra="onnx")
    raise_problems(export_problems(model.config), "This model cannot be exported to ONNX")
    assert isinstance(model, Transformer), "other models are refused above"
    with atomic_folder(out) as temporary:
        _write_graphs(model.eval(), temporary)
        write_json(temporary / DESCRIPTION, {"format": FORMAT})
        folder.write(temporary)
        write_tokenizers_with_normalizer(folder.tokenizers, temporary)
        write_digests(temporary)


def export_problems(config: ModelConfig) -> Iterator[str]:
    """Yield every reason why a model cannot be exported to ONNX."""
    if not isinstance(config, TransformerConfig):
        yield f"model.kind is {config.kind}; supported: transformer"
    elif config.ffn_type == "convolution":
        yield (
            "model.ffn_type is convolution, whose decoding state is not exported; "
            "train with model.ffn_type=linear or gated"
        )


def kv_names(kind: Literal["memory", "past", "present"], layers: int) -> list[str]:
    """Return the tensor names of the keys and values of each layer."""
    return [f"{kind}.{layer}.{part}" for layer in range(layers) for part in ("keys", "values")]


@torch.no_grad()
def _write_graphs(model: Transformer, folder: Path) -> None:
    """Trace and write both graphs with a small example batch."""
    layers = model.config.num_decoder_layers
    tokens, lengths = torch.zeros(3, 7, dtype=torch.long), torch.tensor([7, 5, 2])
    encoder = EncoderGraph(model)
    cross = [part.contiguous() for part in encoder(tokens, lengths)]
    past = [torch.stack([part] * 4, 1)[:, :, :, :5].contiguous() for part in cross]
    batch: Axes = {0: "batch"}
    with _silence():
        _write_graph(
            encoder,
            folder / ENCODER,
            (tokens, lengths),
            ({**batch, 1: "source"}, batch),
            (["tokens", "lengths"], kv_names("memory", layers)),
        )
        beams: Axes = {**batch, 1: "beams"}
        axes = [{**batch, 2: "source"}] * len(cross), [{**beams, 3: "past"}] * len(past)
        _write_graph(
            DecoderGraph(model),
            folder / DECODER,
            (tokens[:, :4].contiguous(), lengths, cross, past),
            (beams, batch, *axes),
            (
                ["tokens", "lengths", *kv_names("memory", layers), *kv_names("past", layers)],
                ["logits", *kv_names("present", layers)],
            ),
        )


def _write_graph(
    graph: nn.Module,
    path: Path,
    example: tuple[Any, ...],
    axes: tuple[Axes | list[Axes], ...],
    names: tuple[Sequence[str], Sequence[str]],
) -> None:
    """Trace and export a graph; raise an error if a dynamic axis would be specialized."""
    dims = {name: torch.export.Dim(name) for name in ("batch", "beams", "source", "past")}

    def dynamic_shape(axes: Axes | list[Axes]) -> Any:
        if isinstance(axes, list):
            return [dynamic_shape(item) for item in axes]
        return {axis: dims[name] for axis, name in axes.items()}

    traced = torch.export.export(
        graph,
        example,
        dynamic_shapes=tuple(map(dynamic_shape, axes)),
        strict=True,  # otherwise `len` of a tensor is that of the example
        prefer_deferred_runtime_asserts_over_guards=True,
    )
    size = sum(weights.numel() * weights.element_size() for weights in graph.parameters())
    program = torch.onnx.export(
        traced,
        input_names=names[0],
        output_names=names[1],
        opset_version=_OPSET,
        dynamic_shapes=axes,  # names of the axes
        custom_translation_table={torch.ops.aten.cos.default: _cosine},
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # source paths on this machine
    program.save(path, external_data=size > _MAX_FILE_SIZE)


def _cosine(x: Any) -> Any:
    """Compute a cosine as a sine, since onnxruntime has Cos in float64 only from 1.29 on."""
    from onnxscript import opset18

    return opset18.Sin(opset18.Add(x, math.pi / 2))


@contextmanager
def _silence() -> Iterator[None]:
    """Suppress the warnings and logs of PyTorch's exporter."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

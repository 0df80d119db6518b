"""Conversion of weights: names, token ids and the order of features differ.

A `WeightMap` has the HuggingFace tensors that are concatenated to each tensor, and their
transform. The same map is used for import and export.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.errors import ModelError
from regard.models.language import LanguageConfig
from regard.text.base import Tokenizer
from regard.text.id_mapping import NO_IMPORTED_ID, IdMapping
from regard.text.imported import ImportedTokenizer
from regard.text.special import SPECIAL


class TensorTransform(NamedTuple):
    """Conversion of a HuggingFace tensor to regard's layout, and back."""

    from_hf: Callable[[Tensor], Tensor]
    to_hf: Callable[[Tensor], Tensor]


IDENTITY = TensorTransform(lambda tensor: tensor, lambda tensor: tensor)
TRANSPOSED = TensorTransform(Tensor.t, Tensor.t)  # HuggingFace's Conv1D: (in, out)
WeightMap = Mapping[str, tuple[Sequence[str], TensorTransform]]
Weights = dict[str, Tensor]
ExportedModel = tuple[
    dict[str, Any], Weights, dict[str, bytes]
]  # settings by file, weights, other files

_SUPPRESSED = -1000.0  # bias of tokens that are never generated; -inf would give infinite losses
# Layers whose inputs, or outputs, are hidden states of width d_model.
_HIDDEN_INPUTS = ("project", "query", "memory", "expand", "gate", "table", "projection")
_HIDDEN_OUTPUTS = ("combine", "contract")


class TensorMismatchError(ValueError):
    """A tensor that does not match the config.json of its folder."""


class HuggingFaceTensors:
    """The tensors of a HuggingFace model by name, all of which must be accounted for.

    A tensor is used (`tensors[name]`), or equals a known constant (`check_redundant`), or has no
    effect because other tensors are used instead (`ignore`). Any other tensor is an error, so that
    no part of a model is silently dropped.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self._accounted: set[str] = set()
        self._differences: dict[str, str] = {}

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor in float32 and mark it as used; KeyError if it is missing."""
        tensor = self._tensors[name]
        if not tensor.is_floating_point():
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise TensorMismatchError(f"have {name} as {dtype} instead of floating-point numbers")
        self._accounted.add(name)
        return tensor.float()

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def first(self, *names: str) -> Tensor:
        """Return the first of these that is stored: tied tensors may have one or several names."""
        return self[next((name for name in names if name in self), names[0])]

    def convert(self, table: WeightMap) -> Weights:
        """Convert tensors to regard's; KeyError if one is missing."""
        return {
            internal: torch.cat([transform.from_hf(self[name]) for name in names])
            for internal, (names, transform) in table.items()
        }

    def embeddings(
        self, table: str, output: str, id_mapping: IdMapping, *, may_tie: bool
    ) -> Weights:
        """Convert the token embeddings, and the output projection if it is not tied."""
        embedding, projection = self[table], self.first(output, *([table] if may_tie else []))
        weights = {"embedding.table.weight": to_internal_rows(embedding, id_mapping)}
        if not may_tie or not torch.equal(embedding, projection):
            weights["projection.weight"] = to_internal_rows(projection, id_mapping)
        return weights

    def check_redundant(self, name: str, expected: Tensor, description: str) -> None:
        """Check that a tensor, if stored, equals `expected` up to rounding."""
        if name not in self._tensors:
            return
        tensor = self._tensors[name]
        exact = expected.to(tensor.dtype)
        if tensor.shape == exact.shape and _nearly_equal(tensor, exact):
            self._accounted.add(name)
        else:
            self._differences[name] = f"expected {description}"

    def ignore(self, name: str, *replacements: str) -> None:
        """Ignore a tensor that has no effect if all of its replacements are stored."""
        if all(other in self._tensors for other in replacements):
            self._accounted.add(name)

    def refuse_unused(self, path: Path) -> None:
        """Raise an error with the names of tensors that are not accounted for."""
        unused = sorted(self._tensors.keys() - self._accounted)
        if not unused:
            return
        unknown = "unknown for its config.json"
        named = [f"{name} ({self._differences.get(name, unknown)})" for name in unused[:3]]
        named += ["..."] if len(unused) > 3 else []
        raise ModelError(
            f"The weights of {path} have {len(unused)} tensors that cannot be imported: "
            f"{'; '.join(named)}. Check that they match its config.json, and copy the whole "
            "folder again."
        )


def _nearly_equal(tensor: Tensor, expected: Tensor) -> bool:
    """Whether two tensors differ by no more than rounding errors of their type."""
    if not tensor.is_floating_point():
        return torch.equal(tensor, expected)
    rounding = 4 * torch.finfo(tensor.dtype).eps
    return torch.allclose(tensor.float(), expected.float(), atol=rounding, rtol=0)


def layer_weights(
    table: Mapping[str, Sequence[str]], transform: TensorTransform = IDENTITY
) -> WeightMap:
    """Return the map of the weights and biases of layers."""
    return {
        f"{internal}.{kind}": ([f"{name}.{kind}" for name in hf], transform)
        for internal, hf in table.items()
        for kind in ("weight", "bias")
    }


def for_each_block(internal: str, hf: str, blocks: int, block: WeightMap) -> WeightMap:
    """Repeat the map of a block for all blocks of a stack."""
    return {
        f"{internal}.{number}.{name}": ([f"{hf}.{number}.{part}" for part in parts], transform)
        for number in range(blocks)
        for name, (parts, transform) in block.items()
    }


def to_hf_weights(internal: Mapping[str, Tensor], table: WeightMap) -> Weights:
    """Convert tensors to HuggingFace's."""
    return {
        name: transform.to_hf(part).clone()
        for tensor, (names, transform) in table.items()
        for name, part in zip(names, internal[tensor].chunk(len(names)), strict=True)
    }


def get_id_mapping(tokenizer: Tokenizer) -> IdMapping:
    """Return the mapping of HuggingFace's token ids; the identity for regard's tokenizers."""
    if isinstance(tokenizer, ImportedTokenizer):
        return tokenizer.id_mapping
    return IdMapping(tokenizer.vocab_size, SPECIAL.pad, SPECIAL.unk, SPECIAL.bos, SPECIAL.eos)


def to_internal_rows(hf: Tensor, id_mapping: IdMapping) -> Tensor:
    """Reorder rows by internal token id; ids without a row get zeros. (V', ...) -> (V, ...)"""
    if len(hf) != id_mapping.size:
        raise TensorMismatchError(f"have {len(hf)} embeddings instead of {id_mapping.size}")
    rows = torch.tensor(id_mapping.imported_ids)
    internal = hf.float()[rows.clamp(min=0)]
    internal[rows == NO_IMPORTED_ID] = 0.0
    return internal


def to_internal_bias(hf: Tensor, id_mapping: IdMapping) -> Tensor:
    """Reorder biases by internal token id; ids without one are never generated. (V') -> (V)"""
    return to_internal_rows(hf, id_mapping).masked_fill(
        torch.tensor(id_mapping.imported_ids) == NO_IMPORTED_ID, _SUPPRESSED
    )


def to_hf_rows(internal: Tensor, id_mapping: IdMapping) -> Tensor:
    """Reorder rows by HuggingFace's token id. (V, ...) -> (V', ...)"""
    rows = torch.tensor(id_mapping.imported_ids)
    hf = internal.new_empty(id_mapping.size, *internal.shape[1:])
    hf[rows[rows != NO_IMPORTED_ID]] = internal[rows != NO_IMPORTED_ID]
    return hf


def is_tied(config: LanguageConfig) -> bool:
    """Whether embeddings are tied in the export: scaled embeddings are stored separately."""
    return config.tied_embeddings != "none" and not config.scale_embedding


def to_hf_embeddings(
    internal: Weights, config: LanguageConfig, id_mapping: IdMapping, table: str, output: str | None
) -> Weights:
    """Convert the token embeddings, with their scale, and the output projection if not tied."""
    embedding = internal["embedding.table.weight"]
    scale = config.d_model**0.5 if config.scale_embedding else 1.0
    weights = {table: to_hf_rows(embedding * scale, id_mapping)}
    if output is not None and not is_tied(config):
        weights[output] = to_hf_rows(internal.get("projection.weight", embedding), id_mapping)
    return weights


def reorder_sinusoid_features(internal: Mapping[str, Tensor]) -> Weights:
    """Reorder the features of a model from interleaved sinusoids to all sines, then all cosines.

    Hidden features can be permuted if all layers that read or write them are permuted, too: norms
    are invariant, and the sinusoids are the only summands that are not weights.
    """

    def reorder(name: str, weight: Tensor) -> Tensor:
        layer, kind = name.rsplit(".", 2)[-2:]
        if layer in _HIDDEN_INPUTS:
            return even_then_odd(weight, 1) if kind == "weight" else weight
        return even_then_odd(weight, 0) if layer in _HIDDEN_OUTPUTS or layer == "norm" else weight

    return {name: reorder(name, weight) for name, weight in internal.items()}


def even_then_odd(weight: Tensor, axis: int) -> Tensor:
    """Reorder an axis: even indices, then odd indices."""
    indices = torch.arange(weight.shape[axis])
    return weight.index_select(axis, torch.cat([indices[0::2], indices[1::2]]))

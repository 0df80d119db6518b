"""Weights under other names, with other numbers for words, and with features in another order.

A table names a tensor of ours, the tensors of theirs that it is made of, one below the other, and
the form that each has. Models are read and written by the same table.
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
from regard.text.foreign import ForeignTokenizer
from regard.text.numbering import ALONE, Numbering
from regard.text.special import SPECIAL


class Form(NamedTuple):
    """How a tensor of theirs becomes one of ours, and the way back."""

    ours: Callable[[Tensor], Tensor]
    theirs: Callable[[Tensor], Tensor]


SAME = Form(lambda tensor: tensor, lambda tensor: tensor)
TURNED = Form(Tensor.t, Tensor.t)  # theirs have a row for each input
Table = Mapping[str, tuple[Sequence[str], Form]]
Weights = dict[str, Tensor]
Written = tuple[dict[str, Any], Weights, dict[str, bytes]]  # settings by file, weights, other files

_UNWRITABLE = -1000.0  # the bias of a word that nobody writes; an infinite one spoils losses
_READS = ("project", "query", "memory", "expand", "gate", "table", "projection")
_WRITES = ("combine", "contract")


class UnfitTensorError(ValueError):
    """What the weights of a folder have that no model of its config.json has."""


class ForeignTensors:
    """The tensors of a foreign file by name, which all must be accounted for.

    A tensor is used (`tensors[name]`), or it was compared with what a model has anyway
    (`redundant`), or the model that wrote it reads another one instead (`unread`). Any other is
    refused by name, so no part of a foreign model is dropped without a comparison.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        self._accounted: set[str] = set()
        self._differences: dict[str, str] = {}

    def __getitem__(self, name: str) -> Tensor:
        """A tensor in float32, which now counts as used; a missing one is a KeyError."""
        tensor = self._tensors[name]
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise UnfitTensorError(f"have {name} as {kind} instead of floating-point numbers")
        self._accounted.add(name)
        return tensor.float()

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def first(self, *names: str) -> Tensor:
        """The first of these that is stored: tied tensors are stored under one name or several."""
        return self[next((name for name in names if name in self), names[0])]

    def read(self, table: Table) -> Weights:
        """Their tensors as ours; one that they lack is a KeyError."""
        return {
            ours: torch.cat([form.ours(self[name]) for name in names])
            for ours, (names, form) in table.items()
        }

    def words(self, table: str, output: str, numbering: Numbering, *, may_tie: bool) -> Weights:
        """The embedding table, and the output's where it is another one."""
        words, scores = self[table], self.first(output, *([table] if may_tie else []))
        weights = {"embedding.table.weight": our_rows(words, numbering)}
        if not may_tie or not torch.equal(words, scores):
            weights["projection.weight"] = our_rows(scores, numbering)
        return weights

    def redundant(self, name: str, expected: Tensor, what: str) -> None:
        """Account for a tensor that should equal `expected`, up to rounding, where it is stored."""
        if name not in self._tensors:
            return
        tensor = self._tensors[name]
        exact = expected.to(tensor.dtype)
        if tensor.shape == exact.shape and _nearly_equal(tensor, exact):
            self._accounted.add(name)
        else:
            self._differences[name] = f"it is not {what}"

    def unread(self, name: str, *instead: str) -> None:
        """Account for a tensor that no output depends on, because all `instead` are stored."""
        if all(other in self._tensors for other in instead):
            self._accounted.add(name)

    def refuse_rest(self, path: Path) -> None:
        """Refuse, by name, what is not accounted for."""
        rest = sorted(self._tensors.keys() - self._accounted)
        if not rest:
            return
        unknown = "a model of its config.json has none of that name"
        named = [f"{name} ({self._differences.get(name, unknown)})" for name in rest[:3]]
        named += ["..."] if len(rest) > 3 else []
        raise ModelError(
            f"The weights of {path} have {len(rest)} tensors that cannot be imported: "
            f"{'; '.join(named)}. Check that they belong to its config.json, and copy the whole "
            "folder again."
        )


def _nearly_equal(tensor: Tensor, expected: Tensor) -> bool:
    """Whether two tensors differ by no more than roundings to their type."""
    if not tensor.is_floating_point():
        return torch.equal(tensor, expected)
    rounding = 4 * torch.finfo(tensor.dtype).eps
    return torch.allclose(tensor.float(), expected.float(), atol=rounding, rtol=0)


def layers(table: Mapping[str, Sequence[str]], form: Form = SAME) -> Table:
    """The weights and biases of layers."""
    return {
        f"{ours}.{kind}": ([f"{name}.{kind}" for name in theirs], form)
        for ours, theirs in table.items()
        for kind in ("weight", "bias")
    }


def for_each_block(ours: str, theirs: str, blocks: int, block: Table) -> Table:
    """The table of one block, written out for all blocks of a stack."""
    return {
        f"{ours}.{number}.{name}": ([f"{theirs}.{number}.{part}" for part in parts], form)
        for number in range(blocks)
        for name, (parts, form) in block.items()
    }


def under_their_names(ours: Mapping[str, Tensor], table: Table) -> Weights:
    """Our tensors as theirs."""
    return {
        name: form.theirs(part).clone()
        for tensor, (names, form) in table.items()
        for name, part in zip(names, ours[tensor].chunk(len(names)), strict=True)
    }


def their_numbering(tokenizer: Tokenizer) -> Numbering:
    """Which of their ids are our marks; the ids of our own tokenizers are taken as they are."""
    if isinstance(tokenizer, ForeignTokenizer):
        return tokenizer.numbering
    return Numbering(tokenizer.vocab_size, SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, SPECIAL.end)


def our_rows(theirs: Tensor, numbering: Numbering) -> Tensor:
    """A row for each of our ids; what is ours alone has zeros. (V', ...) -> (V, ...)"""
    if len(theirs) != numbering.size:
        raise UnfitTensorError(f"have a table of {len(theirs)} words instead of {numbering.size}")
    rows = torch.tensor(numbering.theirs)
    found = theirs.float()[rows.clamp(min=0)]
    found[rows == ALONE] = 0.0
    return found


def our_bias(theirs: Tensor, numbering: Numbering) -> Tensor:
    """A bias for each of our ids; what is ours alone cannot be written. (V') -> (V)"""
    return our_rows(theirs, numbering).masked_fill(
        torch.tensor(numbering.theirs) == ALONE, _UNWRITABLE
    )


def their_rows(ours: Tensor, numbering: Numbering) -> Tensor:
    """A row for each of their ids, without what is ours alone. (V, ...) -> (V', ...)"""
    rows = torch.tensor(numbering.theirs)
    found = ours.new_empty(numbering.size, *ours.shape[1:])
    found[rows[rows != ALONE]] = ours[rows != ALONE]
    return found


def is_tied(config: LanguageConfig) -> bool:
    """Whether their output has the embedding table: a table that ours scales becomes another."""
    return config.tied_embeddings != "none" and not config.scale_embedding


def their_words(
    ours: Weights, config: LanguageConfig, numbering: Numbering, table: str, output: str | None
) -> Weights:
    """Our embedding table, scaled as ours is, and the output's where there is another one."""
    words = ours["embedding.table.weight"]
    scale = config.width**0.5 if config.scale_embedding else 1.0
    weights = {table: their_rows(words * scale, numbering)}
    if output is not None and not is_tied(config):
        weights[output] = their_rows(ours.get("projection.weight", words), numbering)
    return weights


def sines_first(ours: Mapping[str, Tensor]) -> Weights:
    """The same model with its features in another order, so that all sines come before all cosines.

    Whatever goes from layer to layer may be reordered, if all that read and write it are: norms do
    not care, and positions are the only numbers there that are not weights.
    """

    def reordered(name: str, weight: Tensor) -> Tensor:
        layer, kind = name.rsplit(".", 2)[-2:]
        if layer in _READS:
            return sines_before_cosines(weight, 1) if kind == "weight" else weight
        return sines_before_cosines(weight, 0) if layer in _WRITES or layer == "norm" else weight

    return {name: reordered(name, weight) for name, weight in ours.items()}


def sines_before_cosines(weight: Tensor, axis: int) -> Tensor:
    """What stands at even places, then what stands at odd ones."""
    places = torch.arange(weight.shape[axis])
    return weight.index_select(axis, torch.cat([places[0::2], places[1::2]]))

"""Batches: what a model reads and what it should predict, as dataclasses of flat rows.

A batch is data. It moves between devices and between processes by its fields (tensors, rows,
lengths and numbers), so a new kind of batch declares its fields and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from regard.data.ragged import Lengths, Ragged, on_device
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Batch:
    """Rows to read and rows to predict.

    Of pairs, both are sentences with their EOS. Of running text, the target is what should be
    predicted at each position of the source: both have the same lengths, and positions that are not
    predicted hold `SPECIAL.pad`. Of labelled text, the target is its labels.
    """

    source: Ragged
    target: Ragged
    filler: int = 0  # target tokens that the loss ignores, all of them `SPECIAL.pad`

    filler_length: ClassVar[int] = 0  # tokens of the shortest sentence that may fill a shape

    @staticmethod
    def empty() -> Batch:
        """One token and no target: what a rank reads whose shard of a batch is empty."""
        return Batch(Ragged.of([[SPECIAL.end]]), Ragged.of([[SPECIAL.pad]]), filler=1)

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Source and target."""
        return self.source, self.target

    @property
    def target_tokens(self) -> int:
        """The number of tokens that the loss counts."""
        return self.target.lengths.total - self.filler

    @property
    def asked(self) -> Tensor:
        """Positions with a target, found without waiting for a GPU. (A,)

        If there is none, all positions: something goes through a model in any case.
        """
        tokens, count = self.target.tokens, self.target_tokens
        if count in (0, len(tokens)):
            return torch.arange(len(tokens), device=tokens.device)
        return (tokens == SPECIAL.pad).byte().argsort(stable=True)[:count]

    def twice(self) -> Self:
        """All examples, and then all of them again."""
        doubled = _mapped(
            self, {Tensor: lambda row: torch.cat([row, row]), Lengths: lambda own: own.repeated(2)}
        )
        return replace(doubled, filler=2 * self.filler)

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        moved: Self = _mapped(
            self, {Tensor: partial(on_device, device=device), Lengths: lambda own: own.to(device)}
        )
        return moved

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """The same examples in rows that empty sentences fill up to a shape."""
        filler = target.lengths.total - self.target_tokens
        return replace(self, source=source, target=target, filler=filler)

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """The sizes of further tensors in a filled batch, by field."""
        return {}


@dataclass(frozen=True)
class Distributions:
    """A teacher's likeliest tokens at each target position, EOS included."""

    words: Tensor  # (N, k)
    probabilities: Tensor  # (N, k)

    def at(self, places: Tensor) -> Distributions:
        """Those of some positions."""
        return Distributions(self.words[places], self.probabilities[places])


@dataclass(frozen=True, kw_only=True)
class DistilledBatch(Batch):
    """Pairs with a teacher's distributions over the target tokens."""

    distributions: Distributions


@dataclass(frozen=True, kw_only=True)
class FertilityBatch(Batch):
    """Pairs with the number of target tokens that each source token stands for."""

    fertilities: Tensor  # (source tokens,)

    filler_length: ClassVar[int] = 1  # no sentence is without EOS

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """The first token of each filling sentence stands for all of its target tokens."""
        filled = pad(self.fertilities, (0, source.lengths.total - len(self.fertilities)))
        begins = source.lengths.offsets[:-1].long()
        fillers = begins >= len(self.fertilities)
        filled[begins[fillers]] = target.lengths.lengths[fillers] - 1
        return replace(super().filled(source, target), fertilities=filled)

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """A number for each source token."""
        return {"fertilities": source_tokens}


@dataclass(frozen=True, kw_only=True)
class DistilledFertilityBatch(FertilityBatch, DistilledBatch):
    """Pairs with both."""


@dataclass(frozen=True, kw_only=True)
class PrefixBatch(Batch):
    """Pairs, each as one row; all tokens of a row may attend to its prefix."""

    prefixes: Tensor  # (B,) tokens of the prefix

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """Filling sentences have no prefix."""
        missing = len(source.lengths) - len(self.prefixes)
        return replace(super().filled(source, target), prefixes=pad(self.prefixes, (0, missing)))

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """A number for each row."""
        return {"prefixes": sentences}


@dataclass(frozen=True, kw_only=True)
class SentencePairBatch(Batch):
    """Rows of two segments of text each, for BERT's next-sentence objective."""

    segments: Tensor  # (N,) 0 or 1
    next_sentence_labels: Tensor  # (B,) 1: the second does not follow the first


@dataclass(frozen=True, kw_only=True)
class StreamBatch(Batch):
    """Segments of streams, read side by side."""

    continues: bool = False  # its rows continue those of the batch before


@dataclass(frozen=True, kw_only=True)
class PermutedBatch(StreamBatch):
    """Segments whose tokens are predicted in a drawn order (XLNet)."""

    ranks: Tensor | None = None  # (N,) the order; 0: visible to all. None: nothing is predicted
    segments: Tensor | None = None  # (N,) 0 or 1, of rows of two segments of text


@dataclass(frozen=True, kw_only=True)
class TaggedBatch(Batch):
    """Sentences of words, each word with a label."""

    words: Lengths  # subwords of each word, BOS and EOS left out
    spelling: Ragged | None = None  # the bytes of each word


def packed(batch: Any) -> Any:
    """A batch of NumPy arrays: PyTorch would send each tensor through a file of its own."""
    return _mapped(batch, {Tensor: Tensor.numpy})


def unpacked(sent: Any) -> Any:
    """What `packed` was given."""
    return _mapped(sent, {np.ndarray: torch.from_numpy})


def _mapped(value: Any, functions: Mapping[type, Callable[[Any], Any]]) -> Any:
    """The same dataclass with all values of these types mapped, nested ones too."""
    for kind, function in functions.items():
        if isinstance(value, kind):
            return function(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{name: _mapped(part, functions) for name, part in parts.items()})

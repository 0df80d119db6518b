"""Batches: what a model reads and what it should predict, as dataclasses of flat rows.

A batch is data. It moves between devices and between processes by its fields (tensors, rows,
lengths and numbers), so a new kind of batch declares its fields and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
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
        doubled = _mapped(self, _repeated, lambda lengths: lengths.repeated(2))
        return replace(doubled, filler=2 * self.filler)

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        moved: Self = _mapped(
            self, lambda tensor: on_device(tensor, device), lambda lengths: lengths.to(device)
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


@dataclass(frozen=True)
class _Packed:
    """A dataclass, or `Lengths`, by its fields."""

    type: type
    fields: dict[str, Any]


def packed(value: Any) -> Any:
    """A batch by named NumPy arrays: PyTorch would send each tensor through a file of its own."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, Lengths):
        return _Packed(Lengths, {"lengths": value.lengths.numpy()})
    if is_dataclass(value):
        named = {field.name: packed(getattr(value, field.name)) for field in fields(value)}
        return _Packed(type(value), named)
    return value


def unpacked(value: Any) -> Any:
    """What `packed` was given."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, _Packed) and value.type is Lengths:
        return Lengths.of(value.fields["lengths"].tolist())
    if isinstance(value, _Packed):
        return value.type(**{name: unpacked(part) for name, part in value.fields.items()})
    return value


def _mapped(
    value: Any, tensors: Callable[[Tensor], Tensor], lengths: Callable[[Lengths], Lengths]
) -> Any:
    """The same dataclass with all tensors and lengths mapped, nested ones too."""
    if isinstance(value, Tensor):
        return tensors(value)
    if isinstance(value, Lengths):
        return lengths(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{name: _mapped(part, tensors, lengths) for name, part in parts.items()})


def _repeated(tensor: Tensor) -> Tensor:
    return tensor.repeat(2, *[1] * (tensor.ndim - 1))

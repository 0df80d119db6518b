"""Batches: model inputs and targets, as dataclasses of ragged rows.

Transfer between devices and processes works field by field (tensors, rows, lengths, numbers), so
a new type of batch only declares its fields.
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

from regard.data.ragged import Lengths, Ragged, to_device
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Batch:
    """Inputs and targets.

    Translation: sentences with EOS. Language modeling: the target has the label of each source
    position, and `SPECIAL.pad` where nothing is predicted. Labelling: the target has the labels.
    """

    source: Ragged
    target: Ragged
    filler: int = 0  # number of target tokens ignored by the loss: `SPECIAL.pad`, and context

    filler_length: ClassVar[int] = 0  # minimum length of a filler sentence

    @staticmethod
    def empty() -> Batch:
        """One token without a target, for a rank whose shard of a batch is empty."""
        return Batch(Ragged.of([[SPECIAL.eos]]), Ragged.of([[SPECIAL.pad]]), filler=1)

    @property
    def sides(self) -> tuple[Ragged, Ragged]:
        """Source and target."""
        return self.source, self.target

    @property
    def target_tokens(self) -> int:
        """The number of tokens that the loss counts."""
        return self.target.lengths.total - self.filler

    @property
    def target_positions(self) -> Tensor:
        """Positions with a target, computed without GPU synchronization. (A,)

        All positions if there are none, so that a model never gets an empty tensor.
        """
        tokens, count = self.target.tokens, self.target_tokens
        if count in (0, len(tokens)):
            return torch.arange(len(tokens), device=tokens.device)
        return (tokens == SPECIAL.pad).byte().argsort(stable=True)[:count]

    def duplicate(self) -> Self:
        """All examples twice, one copy after the other (R-Drop)."""
        doubled = _map_fields(
            self,
            {Tensor: lambda row: torch.cat([row, row]), Lengths: lambda lengths: lengths.repeat(2)},
        )
        return replace(doubled, filler=2 * self.filler)

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        moved: Self = _map_fields(
            self,
            {
                Tensor: partial(to_device, device=device),
                Lengths: lambda lengths: lengths.to(device),
            },
        )
        return moved

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """The same examples in rows with filler sentences, which give the batch a fixed shape."""
        filler = target.lengths.total - self.target_tokens
        return replace(self, source=source, target=target, filler=filler)

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """The sizes of additional tensor fields in a filled batch."""
        return {}


@dataclass(frozen=True)
class Distributions:
    """A teacher's top-k tokens at each target position, EOS included."""

    token_ids: Tensor  # (N, k)
    probabilities: Tensor  # (N, k)

    def at(self, positions: Tensor) -> Distributions:
        """The distributions at some positions."""
        return Distributions(self.token_ids[positions], self.probabilities[positions])


@dataclass(frozen=True, kw_only=True)
class DistilledBatch(Batch):
    """Pairs with a teacher's distributions over the target tokens."""

    distributions: Distributions


@dataclass(frozen=True, kw_only=True)
class FertilityBatch(Batch):
    """Pairs with the fertility of each source token: its number of target tokens."""

    fertilities: Tensor  # (source tokens,)

    filler_length: ClassVar[int] = 1  # EOS

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """The first token of a filler sentence has all of its fertility."""
        filled = pad(self.fertilities, (0, source.lengths.total - len(self.fertilities)))
        begins = source.lengths.offsets[:-1].long()
        fillers = begins >= len(self.fertilities)
        filled[begins[fillers]] = target.lengths.lengths[fillers] - 1
        return replace(super().filled(source, target), fertilities=filled)

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """One fertility per source token."""
        return {"fertilities": source_tokens}


@dataclass(frozen=True, kw_only=True)
class DistilledFertilityBatch(FertilityBatch, DistilledBatch):
    """Pairs with distributions and fertilities."""


@dataclass(frozen=True, kw_only=True)
class ContextBatch(Batch):
    """Pairs whose targets begin with previous sentences of a document, which are not predicted."""

    context_lengths: Tensor  # (B,) tokens of each target that are context

    @property
    def is_context(self) -> Tensor:
        """Whether each target token is context. (N,)"""
        lengths = self.target.lengths
        return lengths.positions < self.context_lengths[lengths.sentence]

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """Filler sentences have no context."""
        missing = len(target.lengths) - len(self.context_lengths)
        padded = pad(self.context_lengths, (0, missing))
        return replace(super().filled(source, target), context_lengths=padded)

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """One context length per target."""
        return {"context_lengths": sentences}


@dataclass(frozen=True, kw_only=True)
class PrefixBatch(Batch):
    """Pairs, each as one row; all tokens of a row may attend to its prefix."""

    prefixes: Tensor  # (B,) prefix lengths

    def filled(self, source: Ragged, target: Ragged) -> Self:
        """Filler sentences have no prefix."""
        missing = len(source.lengths) - len(self.prefixes)
        return replace(super().filled(source, target), prefixes=pad(self.prefixes, (0, missing)))

    @staticmethod
    def extra_sizes(sentences: int, source_tokens: int) -> dict[str, int]:
        """One prefix length per row."""
        return {"prefixes": sentences}


@dataclass(frozen=True, kw_only=True)
class SentencePairBatch(Batch):
    """Rows of two segments of text each, for BERT's next-sentence objective."""

    segments: Tensor  # (N,) 0 or 1
    next_sentence_labels: Tensor  # (B,) 1: the second segment is random


@dataclass(frozen=True, kw_only=True)
class StreamBatch(Batch):
    """Segments of parallel text streams."""

    continues: bool = False  # rows continue those of the previous batch


@dataclass(frozen=True, kw_only=True)
class PermutedBatch(StreamBatch):
    """Segments whose tokens are predicted in a random order (XLNet)."""

    ranks: Tensor | None = None  # (N,) prediction order; 0: visible to all. None: no targets
    segments: Tensor | None = None  # (N,) 0 or 1, for rows of two segments


@dataclass(frozen=True, kw_only=True)
class TaggedBatch(Batch):
    """Sentences of words, each word with a label."""

    words: Lengths  # number of subwords of each word, without BOS and EOS
    word_bytes: Ragged | None = None  # the bytes of each word


def to_numpy(batch: Any) -> Any:
    """A batch with NumPy arrays; PyTorch would send each tensor through its own shared file."""
    return _map_fields(batch, {Tensor: Tensor.numpy})


def from_numpy(batch: Any) -> Any:
    """The inverse of `to_numpy`."""
    return _map_fields(batch, {np.ndarray: torch.from_numpy})


def _map_fields(value: Any, functions: Mapping[type, Callable[[Any], Any]]) -> Any:
    """The same dataclass with functions applied to all values of some types, recursively."""
    for kind, function in functions.items():
        if isinstance(value, kind):
            return function(value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {field.name: getattr(value, field.name) for field in fields(value)}
    return replace(value, **{name: _map_fields(part, functions) for name, part in parts.items()})

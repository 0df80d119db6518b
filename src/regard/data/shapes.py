"""Batches in few shapes, so that what a GPU does with one can be recorded and replayed.

A flat batch is as large as its sentences, and hardly two are of one size. Here a batch is filled
up to the next of a few sizes, with sentences of `SPECIAL.pad` that nobody learns from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Side:
    """The shape of the sources, or of the targets."""

    tokens: int
    longest: int  # no sentence is longer, and none need be as long

    @staticmethod
    def around(lengths: Lengths, unit: int, limit: int) -> Side:
        """The next size in tokens; sentences up to a power of two, but never beyond the limit."""
        longest = max(16, 1 << (lengths.longest - 1).bit_length())
        return Side(_up(lengths.total, unit), max(lengths.longest, min(longest, limit)))

    def fillers(self, missing: int, least: int = 0) -> list[int]:
        """The lengths of sentences that have so many tokens beyond the `least` of each."""
        whole, rest = divmod(missing, self.longest - least)
        return [self.longest] * whole + [least + rest] * (rest > 0)

    def filled(self, row: Ragged, sentences: int, least: int = 0) -> Ragged:
        """The row with fillers after it, then sentences of `least` tokens up to so many in all."""
        lengths = row.lengths
        more = sentences - len(lengths)
        fillers = self.fillers(self.tokens - lengths.total - least * more, least)
        assert len(fillers) <= more
        fillers += [least] * (more - len(fillers))
        tokens = row.tokens.new_full((self.tokens,), SPECIAL.pad)
        tokens[: lengths.total] = row.tokens
        sizes = torch.cat([lengths.lengths, lengths.lengths.new_tensor(fillers)])
        return self.laid_out(tokens, sizes)

    def laid_out(self, tokens: Tensor, lengths: Tensor) -> Ragged:
        """Tokens and lengths of this shape as a row."""
        return Ragged(tokens, Lengths(lengths, longest=self.longest, total=self.tokens))


@dataclass(frozen=True)
class Shape:
    """What two batches have in common if the work on one can be replayed for the other."""

    source: Side
    target: Side
    sentences: int
    batch_type: type[Batch] = Batch

    @staticmethod
    def around(batch: Batch, unit: int, limit: int) -> Shape:
        """The shape that a batch is filled to."""
        rows = batch.source.lengths, batch.target.lengths
        sides = [Side.around(lengths, unit, limit) for lengths in rows]
        least = batch.filler_length
        fillers = 0
        for side, own in zip(sides, rows, strict=True):
            missing = unit if least else side.tokens - own.total  # beside the least of each
            fillers = max(fillers, len(side.fillers(missing, least)))
        sentences = len(rows[0]) + fillers
        sentences = _up(sentences, 1 << max(0, sentences.bit_length() - 3))  # four sizes an octave
        more = least * (sentences - len(rows[0]))
        source, target = (
            replace(side, tokens=_up(own.total + more, unit))
            for side, own in zip(sides, rows, strict=True)
        )
        return Shape(source, target, sentences, type(batch))

    def filled(self, batch: Batch) -> Batch:
        """The same examples in this shape."""
        least = batch.filler_length
        source = self.source.filled(batch.source, self.sentences, least)
        return batch.filled(source, self.target.filled(batch.target, self.sentences, least))

    @property
    def _extra_sizes(self) -> dict[str, int]:
        return self.batch_type.extra_sizes(self.sentences, self.source.tokens)

    def packed(self, batch: Batch) -> Tensor:
        """All numbers of a filled batch as one row: one copy brings it to a GPU."""
        rows = [part for row in batch.sides for part in (row.tokens, row.lengths.lengths)]
        return torch.cat([*rows, *(getattr(batch, name) for name in self._extra_sizes)])

    def unpacked(self, numbers: Tensor) -> Batch:
        """What `packed` made one row of; its `filler` is not among the numbers."""
        extra = self._extra_sizes
        sizes = [self.source.tokens, self.sentences, self.target.tokens, self.sentences]
        parts = numbers.split([*sizes, *extra.values()])
        return self.batch_type(
            self.source.laid_out(*parts[:2]),
            self.target.laid_out(*parts[2:4]),
            **dict(zip(extra, parts[4:], strict=True)),
        )


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit

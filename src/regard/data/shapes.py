"""Batches in few shapes, so that what a GPU does with one can be recorded and replayed.

A flat batch is as large as its sentences, and hardly two are of one size. Here a batch is filled
up to the next of a few sizes, with sentences of `SPECIAL.pad` that nobody learns from.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.ragged import Batch, Lengths, Ragged
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

    def fillers(self, lengths: Lengths) -> list[int]:
        """The lengths of the sentences that are missing."""
        missing = self.tokens - lengths.total
        whole, rest = divmod(missing, self.longest)
        return [self.longest] * whole + [rest] * (rest > 0)

    def filled(self, row: Ragged, sentences: int) -> Ragged:
        """The row with fillers after it, and then as many empty sentences as it takes."""
        lengths, fillers = row.lengths, self.fillers(row.lengths)
        empty = sentences - len(lengths) - len(fillers)
        assert empty >= 0
        more = lengths.lengths.new_tensor(fillers + [0] * empty)
        tokens = row.tokens.new_full((self.tokens,), SPECIAL.pad)
        tokens[: lengths.total] = row.tokens
        return self.laid_out(tokens, torch.cat([lengths.lengths, more]))

    def laid_out(self, tokens: Tensor, lengths: Tensor) -> Ragged:
        """Tokens and lengths of this shape as a row."""
        return Ragged(tokens, Lengths(lengths, longest=self.longest, total=self.tokens))


@dataclass(frozen=True)
class Shape:
    """What two batches have in common if the work on one can be replayed for the other."""

    source: Side
    target: Side
    sentences: int
    prefixed: bool = False  # whether there is a prefix of each

    @staticmethod
    def around(batch: Batch, unit: int, limit: int) -> Shape:
        """The shape that a batch is filled to."""
        rows = batch.source.lengths, batch.target.lengths
        source, target = (Side.around(lengths, unit, limit) for lengths in rows)
        fillers = max(len(source.fillers(rows[0])), len(target.fillers(rows[1])))
        sentences = len(rows[0]) + fillers
        quarter = 1 << max(0, sentences.bit_length() - 3)  # four sizes an octave
        return Shape(source, target, _up(sentences, quarter), batch.prefixes is not None)

    def filled(self, batch: Batch) -> Batch:
        """The same pairs in this shape."""
        prefixes = batch.prefixes
        if prefixes is not None:
            prefixes = torch.nn.functional.pad(prefixes, (0, self.sentences - len(prefixes)))
        return Batch(
            self.source.filled(batch.source, self.sentences),
            self.target.filled(batch.target, self.sentences),
            filler=self.target.tokens - batch.target_tokens,
            prefixes=prefixes,
        )

    def packed(self, batch: Batch) -> Tensor:
        """All numbers of a filled batch as one row: one copy brings it to a GPU."""
        rows = [part for row in batch.sides for part in (row.tokens, row.lengths.lengths)]
        return torch.cat(rows if batch.prefixes is None else [*rows, batch.prefixes])

    def unpacked(self, numbers: Tensor) -> Batch:
        """What `packed` made one row of; its `filler` is not among the numbers."""
        sizes = [self.source.tokens, self.sentences, self.target.tokens, self.sentences]
        *parts, prefixes = numbers.split([*sizes, self.sentences * self.prefixed])
        sides = self.source.laid_out(*parts[:2]), self.target.laid_out(*parts[2:])
        return Batch(*sides, prefixes=prefixes if self.prefixed else None)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit

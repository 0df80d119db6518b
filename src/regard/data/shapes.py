"""Shape buckets for batches: CUDA graphs need static shapes.

Ragged batches vary in size. Filler sentences of `SPECIAL.pad`, which the loss ignores, bring a
batch to the next of a few sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class SideShape:
    """The shape of the source or target side of a batch."""

    tokens: int
    longest: int  # upper bound of sentence lengths

    @staticmethod
    def bucket(lengths: Lengths, unit: int, limit: int) -> SideShape:
        """The next multiple of `unit` tokens; lengths up to a power of two or `limit`."""
        longest = max(16, 1 << (lengths.longest - 1).bit_length())
        return SideShape(_round_up(lengths.total, unit), max(lengths.longest, min(longest, limit)))

    def filler_lengths(self, missing: int, min_length: int = 0) -> list[int]:
        """Lengths of filler sentences with `missing` tokens beyond the minimum of each."""
        whole, rest = divmod(missing, self.longest - min_length)
        return [self.longest] * whole + [min_length + rest] * (rest > 0)

    def filled(self, row: Ragged, sentences: int, min_length: int = 0) -> Ragged:
        """The row with filler sentences of at least `min_length` tokens, `sentences` in total."""
        lengths = row.lengths
        num_fillers = sentences - len(lengths)
        fillers = self.filler_lengths(
            self.tokens - lengths.total - min_length * num_fillers, min_length
        )
        assert len(fillers) <= num_fillers
        fillers += [min_length] * (num_fillers - len(fillers))
        tokens = row.tokens.new_full((self.tokens,), SPECIAL.pad)
        tokens[: lengths.total] = row.tokens
        sizes = torch.cat([lengths.lengths, lengths.lengths.new_tensor(fillers)])
        return self.to_ragged(tokens, sizes)

    def to_ragged(self, tokens: Tensor, lengths: Tensor) -> Ragged:
        """Tokens and lengths of this shape as a ragged row."""
        return Ragged(tokens, Lengths(lengths, longest=self.longest, total=self.tokens))


@dataclass(frozen=True)
class BatchShape:
    """The shape of a batch; a CUDA graph can be replayed for all batches of one shape."""

    source: SideShape
    target: SideShape
    sentences: int
    batch_type: type[Batch] = Batch

    @staticmethod
    def bucket(batch: Batch, unit: int, limit: int) -> BatchShape:
        """The shape that a batch is filled up to."""
        rows = batch.source.lengths, batch.target.lengths
        sides = [SideShape.bucket(lengths, unit, limit) for lengths in rows]
        min_length = batch.filler_length
        fillers = 0
        for side, lengths in zip(sides, rows, strict=True):
            missing = (
                unit if min_length else side.tokens - lengths.total
            )  # beyond the minimum of each
            fillers = max(fillers, len(side.filler_lengths(missing, min_length)))
        sentences = len(rows[0]) + fillers
        sentences = _round_up(
            sentences, 1 << max(0, sentences.bit_length() - 3)
        )  # four sizes per power of two
        more = min_length * (sentences - len(rows[0]))
        source, target = (
            replace(side, tokens=_round_up(lengths.total + more, unit))
            for side, lengths in zip(sides, rows, strict=True)
        )
        return BatchShape(source, target, sentences, type(batch))

    def filled(self, batch: Batch) -> Batch:
        """The same examples in this shape."""
        min_length = batch.filler_length
        source = self.source.filled(batch.source, self.sentences, min_length)
        return batch.filled(source, self.target.filled(batch.target, self.sentences, min_length))

    @property
    def _extra_sizes(self) -> dict[str, int]:
        return self.batch_type.extra_sizes(self.sentences, self.source.tokens)

    def pack(self, batch: Batch) -> Tensor:
        """All numbers of a filled batch in one tensor, which takes a single copy to a GPU."""
        rows = [part for row in batch.sides for part in (row.tokens, row.lengths.lengths)]
        return torch.cat([*rows, *(getattr(batch, name) for name in self._extra_sizes)])

    def unpack(self, numbers: Tensor) -> Batch:
        """The inverse of `pack`, except for `filler`."""
        extra = self._extra_sizes
        sizes = [self.source.tokens, self.sentences, self.target.tokens, self.sentences]
        parts = numbers.split([*sizes, *extra.values()])
        return self.batch_type(
            self.source.to_ragged(*parts[:2]),
            self.target.to_ragged(*parts[2:4]),
            **dict(zip(extra, parts[4:], strict=True)),
        )


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit

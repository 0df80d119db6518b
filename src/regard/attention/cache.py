"""KV caches of decoding, so that each step computes one new column.

The W beams of a sentence share one cache: at each position, each beam writes its own column. The
beam history holds, for each beam and position, the beam whose column it came from (back-pointers).
Reordering beams updates the back-pointers only; keys and values are not moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_COLUMNS = 16  # attended to at least: PyTorch is slow for matrices of fewer than 400 numbers
Indices = Tensor | slice  # of sentences or columns


def select_rows(rows: Tensor, sentences: Indices) -> Tensor:
    """The rows of some sentences; a slice is a view, without a copy."""
    return rows[sentences] if isinstance(sentences, slice) else rows.index_select(0, sentences)


def compact_rows(rows: Tensor, sentences: Indices) -> Tensor:
    """`select_rows`, in place on a CPU: rows whose index does not change are not copied."""
    if isinstance(sentences, slice) or not rows.is_cpu:
        return select_rows(rows, sentences)
    targets = torch.arange(len(sentences), device=rows.device)
    moved = (sentences != targets).nonzero().squeeze(1)
    rows.index_copy_(0, moved, rows.index_select(0, sentences[moved]))
    return rows[: len(sentences)]


def reorder_beams(state: Tensor, parents: Tensor) -> None:
    """Replace each beam's state by its parent's, in place; state (B, W, ...), parents (B, W)"""
    rows = torch.arange(len(state), device=state.device)[:, None]
    state.copy_(state[rows, parents])


@dataclass(frozen=True)
class KVCache:
    """Keys and values of S columns for each of B sentences."""

    keys: Tensor  # (B, H, S, d)
    values: Tensor  # (B, H, S, e)

    def write(self, columns: Indices, key: Tensor, value: Tensor) -> None:
        """Fill W columns; key and value (B, W, H, d)."""
        self.keys[:, :, columns] = key.transpose(1, 2)
        self.values[:, :, columns] = value.transpose(1, 2)

    def prefill(self, prefix: KVCache, beams: int) -> None:
        """Write the first positions, in the columns of the first of `beams` beams."""
        columns = slice(0, prefix.keys.shape[2] * beams, beams)
        self.keys[:, :, columns] = prefix.keys
        self.values[:, :, columns] = prefix.values

    def with_capacity(self, columns: int) -> KVCache:
        """A larger cache with the same content; the new columns are zero."""
        more = columns - self.keys.shape[2]
        return KVCache(*(F.pad(part, (0, 0, 0, more)) for part in (self.keys, self.values)))

    def first(self, columns: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first columns."""
        return self.keys[:, :, :columns], self.values[:, :, :columns]

    def select(self, sentences: Indices) -> KVCache:
        """The cache of some sentences; it reuses this cache's memory, which is then invalid."""
        return KVCache(compact_rows(self.keys, sentences), compact_rows(self.values, sentences))


@dataclass
class BeamHistory:
    """The back-pointers of the beams of B sentences, and the position of the next step.

    A step attends to the first `length` positions. Without CUDA graphs these are the positions
    written so far (`exact`); all steps of a CUDA graph share one length, so that the last of these
    positions may not be written yet.
    """

    beams: Tensor  # (B, W, T) the beam whose column holds each position; -1: not written yet
    position: Tensor  # (1,) of the next tokens
    length: int = 1
    exact: bool = True  # the next tokens are at position `length - 1`

    @staticmethod
    def of(sentences: int, beams: int, capacity: int, device: torch.device) -> BeamHistory:
        """An empty history with `capacity` positions."""
        table = torch.full((sentences, beams, capacity), -1, device=device)
        return BeamHistory(table, torch.zeros(1, dtype=torch.long, device=device))

    @property
    def capacity(self) -> int:
        """The number of positions that fit."""
        return self.beams.shape[2]

    def grow(self, capacity: int) -> None:
        """Enlarge the table to `capacity` positions."""
        self.beams = F.pad(self.beams, (0, capacity - self.capacity), value=-1)

    def prefill(self, length: int) -> None:
        """Before the first step: all beams share `length` positions, written by the first beam."""
        self.beams[:, :, :length] = 0
        self.position += length

    def begin_step(self) -> CacheView:
        """Point each beam to its own column at the current position."""
        sentences, width, _ = self.beams.shape
        beam_ids = torch.arange(width, device=self.beams.device).view(1, -1, 1)
        self.beams.index_copy_(2, self.position, beam_ids.expand(sentences, -1, 1))
        return CacheView(self)

    def end_step(self) -> None:
        """Advance to the next position."""
        self.position += 1

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        pointers = self.beams[:, :, : self.length]
        pointers.copy_(pointers.gather(1, parents[:, :, None].expand_as(pointers)))

    def select(self, sentences: Indices) -> BeamHistory:
        """The history of some sentences."""
        beams = select_rows(self.beams, sentences)
        return BeamHistory(beams, self.position.clone(), self.length, self.exact)


@dataclass
class CacheView:
    """The columns that one step writes and attends to, the same in all layers."""

    history: BeamHistory
    _bias: Tensor | None = None

    @property
    def num_beams(self) -> int:
        """The beams of a sentence."""
        return self.history.beams.shape[1]

    @cached_property
    def beam_ids(self) -> Tensor:
        """The numbers of the beams of a sentence. (W,)"""
        return torch.arange(self.num_beams, device=self.history.beams.device)

    @cached_property
    def written_columns(self) -> Indices:
        """The W columns that this step writes."""
        if self.history.exact:
            end = self.history.length * self.num_beams
            return slice(end - self.num_beams, end)
        return self.history.position * self.num_beams + self.beam_ids

    @property
    def num_columns(self) -> int:
        """The number of columns attended to."""
        return self.num_positions * self.num_beams

    @cached_property
    def num_positions(self) -> int:
        """The number of positions attended to, including a few that are not written yet."""
        least = MIN_COLUMNS // self.num_beams
        return min(self.history.capacity, max(self.history.length, least))

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """Additive mask: -inf for columns outside a beam's history; None if there are none.

        (B, 1, W, columns)
        """
        exact = self.history.exact and self.num_positions == self.history.length
        if self.num_beams == 1 and exact:
            return None
        if self._bias is None:
            pointers = self.history.beams[:, :, : self.num_positions]
            visible = pointers[:, :, :, None] == self.beam_ids  # (B, W, positions, beams)
            bias = torch.zeros(visible.shape, dtype=dtype, device=self.beam_ids.device)
            self._bias = bias.masked_fill_(~visible, -torch.inf).flatten(2)[:, None]
        return self._bias

    @property
    def back_pointers(self) -> Tensor:
        """The beam whose column holds each position. (B, W, positions)"""
        return self.history.beams[:, :, : self.history.length]


@dataclass(frozen=True)
class SourceMask:
    """The padding mask of source sentences."""

    lengths: Tensor  # (B,)
    bias: Tensor  # (B, 1, 1, S) 0 for tokens, -inf for padding

    @staticmethod
    def of(mask: Tensor, lengths: Tensor, dtype: torch.dtype) -> SourceMask:
        """From a bool mask (B, S), True = token."""
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return SourceMask(lengths, bias.masked_fill_(~mask, -torch.inf)[:, None, None])

    def select(self, sentences: Indices) -> SourceMask:
        """The mask of some sentences."""
        return SourceMask(select_rows(self.lengths, sentences), select_rows(self.bias, sentences))

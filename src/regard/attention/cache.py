"""What decoding keeps between steps, so that a step costs one new column.

The W beams of a sentence share one store: at each place, each writes a column of its own. Which of
the columns a beam came through is its trail. When beams change places, only their trails do; keys
and values stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 16  # columns to look at: PyTorch multiplies matrices of under 400 numbers in a slow way
Some = Tensor | slice  # the numbers of sentences or columns, or a run of them


def some_of(rows: Tensor, sentences: Some) -> Tensor:
    """The rows of some sentences; of a run of them, nothing is copied."""
    return rows[sentences] if isinstance(sentences, slice) else rows.index_select(0, sentences)


def moved_up(rows: Tensor, sentences: Some) -> Tensor:
    """The same, but on a CPU the rows change: whoever keeps its number is not copied."""
    if isinstance(sentences, slice) or not rows.is_cpu:
        return some_of(rows, sentences)
    numbers = torch.arange(len(sentences), device=rows.device)
    moved = (sentences != numbers).nonzero().squeeze(1)
    rows.index_copy_(0, moved, rows.index_select(0, sentences[moved]))
    return rows[: len(sentences)]


def follow(part: Tensor, parents: Tensor) -> None:
    """What each beam keeps becomes what its parent kept; part (B, W, ...), parents (B, W)"""
    rows = torch.arange(len(part), device=part.device)[:, None]
    part.copy_(part[rows, parents])


@dataclass(frozen=True)
class KeyValues:
    """What queries look at: S columns for each of B sentences, those of a head one by one."""

    keys: Tensor  # (B, H, S, d)
    values: Tensor  # (B, H, S, e)

    def write(self, columns: Some, key: Tensor, value: Tensor) -> None:
        """Fill W columns; key and value (B, W, H, d)."""
        self.keys[:, :, columns] = key.transpose(1, 2)
        self.values[:, :, columns] = value.transpose(1, 2)

    def begin_with(self, seen: KeyValues, beams: int) -> None:
        """Fill the first places, as the first of so many beams would have."""
        columns = slice(0, seen.keys.shape[2] * beams, beams)
        self.keys[:, :, columns] = seen.keys
        self.values[:, :, columns] = seen.values

    def grown(self, columns: int) -> KeyValues:
        """With room for so many columns; the new ones are empty."""
        more = columns - self.keys.shape[2]
        return KeyValues(*(F.pad(part, (0, 0, 0, more)) for part in (self.keys, self.values)))

    def first(self, columns: int) -> tuple[Tensor, Tensor]:
        """The first columns."""
        return self.keys[:, :, :columns], self.values[:, :, :columns]

    def select(self, sentences: Some) -> KeyValues:
        """Those of some sentences, in the same memory: these keys and values are used up."""
        return KeyValues(moved_up(self.keys, sentences), moved_up(self.values, sentences))


@dataclass
class Trail:
    """Where the beams of B sentences came through, and where they stand.

    Only the places up to `reach` are looked at. On a CPU that is up to where the beams stand; where
    steps are recorded, all steps of a recording have the same reach, and some of it is not written.
    """

    beams: Tensor  # (B, W, T) at each place, the beam whose column it was; -1: not written yet
    place: Tensor  # (1,) where the next tokens will stand
    reach: int = 1
    exact: bool = True  # the beams stand at the end of their reach

    @staticmethod
    def of(sentences: int, beams: int, room: int, device: torch.device) -> Trail:
        """With room for so many places."""
        table = torch.full((sentences, beams, room), -1, device=device)
        return Trail(table, torch.zeros(1, dtype=torch.long, device=device))

    @property
    def room(self) -> int:
        """Places that can be written."""
        return self.beams.shape[2]

    def grow(self, room: int) -> None:
        """Make room for so many places."""
        self.beams = F.pad(self.beams, (0, room - self.room), value=-1)

    def begin_with(self, places: int) -> None:
        """All beams come from the first one, which wrote so many places before the first step."""
        self.beams[:, :, :places] = 0
        self.place += places

    def begin(self) -> Sight:
        """A new step: each beam writes its own columns, and looks back along its trail."""
        sentences, width, _ = self.beams.shape
        own = torch.arange(width, device=self.beams.device).view(1, -1, 1)
        self.beams.index_copy_(2, self.place, own.expand(sentences, -1, 1))
        return Sight(self)

    def end(self) -> None:
        """The step is done."""
        self.place += 1

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        came = self.beams[:, :, : self.reach]
        came.copy_(came.gather(1, parents[:, :, None].expand_as(came)))

    def select(self, sentences: Some) -> Trail:
        """Those of some sentences."""
        return Trail(some_of(self.beams, sentences), self.place.clone(), self.reach, self.exact)


@dataclass
class Sight:
    """What a layer needs to know of a step to look back."""

    trail: Trail
    _bias: Tensor | None = None

    @property
    def beams(self) -> int:
        """How many a sentence has."""
        return self.trail.beams.shape[1]

    @cached_property
    def own(self) -> Tensor:
        """The beams of a sentence. (W,)"""
        return torch.arange(self.beams, device=self.trail.beams.device)

    @cached_property
    def writes(self) -> Some:
        """The columns that are written: W of them."""
        if self.trail.exact:
            return slice(self.trail.reach * self.beams - self.beams, self.trail.reach * self.beams)
        return self.trail.place * self.beams + self.own

    @property
    def columns(self) -> int:
        """How many are looked at."""
        return self.places * self.beams

    @cached_property
    def places(self) -> int:
        """How many places they are of: the reach, or a few more, which are not written yet."""
        return min(self.trail.room, max(self.trail.reach, LEAST // self.beams))

    def bias(self, dtype: torch.dtype) -> Tensor | None:
        """What keeps each beam to the columns that it came through; None: nothing need.

        (B, 1, W, columns), the same for all layers
        """
        if self.beams == 1 and self.trail.exact and self.places == self.trail.reach:
            return None
        if self._bias is None:
            came = self.trail.beams[:, :, : self.places]
            through = came[:, :, :, None] == self.own  # (B, W, places, beams)
            bias = torch.zeros(through.shape, dtype=dtype, device=self.own.device)
            self._bias = bias.masked_fill_(~through, -torch.inf).flatten(2)[:, None]
        return self._bias

    @property
    def came(self) -> Tensor:
        """The beam of each place. (B, W, places)"""
        return self.trail.beams[:, :, : self.trail.reach]


@dataclass(frozen=True)
class Sources:
    """Which columns of the memory are words."""

    lengths: Tensor  # (B,)
    bias: Tensor  # (B, 1, 1, S) nothing for words, -inf behind them

    @staticmethod
    def of(mask: Tensor, lengths: Tensor, dtype: torch.dtype) -> Sources:
        """From where words are: mask (B, S)."""
        bias = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return Sources(lengths, bias.masked_fill_(~mask, -torch.inf)[:, None, None])

    def select(self, sentences: Some) -> Sources:
        """Those of some sentences."""
        return Sources(some_of(self.lengths, sentences), some_of(self.bias, sentences))

"""Translation directions: what a store or a model of several directions says about each.

A model of many languages reads the target language from the source: each source begins with a
target tag, such as "<2de>" (Johnson et al., 2017, arXiv:1611.04558).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from regard.config import Ge, Le, Settings

_Count = Annotated[int, Ge(0), Le(2**62)]


class Direction(NamedTuple):
    """A source and a target language."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"

    @property
    def reverse(self) -> Direction:
        """The direction from target to source."""
        return Direction(self.target, self.source)


@dataclass(frozen=True)
class DirectionStatistics(Settings):
    """A direction, and statistics of its training pairs."""

    source: str
    target: str
    pairs: _Count
    longest_source: Annotated[int, Ge(0), Le(2**31 - 1)]  # in subwords, tags included
    several_sentences: Annotated[float, Ge(0), Le(1)]  # fraction of lines

    @property
    def direction(self) -> Direction:
        """The languages."""
        return Direction(self.source, self.target)


def merge_statistics(
    first: Iterable[DirectionStatistics], second: Iterable[DirectionStatistics]
) -> list[DirectionStatistics]:
    """The directions of a model that was trained on one corpus after the other.

    Of a direction in both, the maximum of each number, as pairs may be in both.
    """
    merged = {each.direction: each for each in first}
    for new in second:
        old = merged.get(new.direction, new)
        merged[new.direction] = DirectionStatistics(
            *new.direction,
            max(old.pairs, new.pairs),
            max(old.longest_source, new.longest_source),
            max(old.several_sentences, new.several_sentences),
        )
    return [*merged.values()]


def union_statistics(directions: Sequence[DirectionStatistics]) -> tuple[int, float]:
    """`longest_source` and `several_sentences` of the pairs of several directions together."""
    pairs = sum(each.pairs for each in directions)
    several = sum(each.several_sentences * each.pairs for each in directions)
    longest = max(each.longest_source for each in directions)
    return longest, min(several / pairs, 1.0) if pairs else 0.0


def format_directions(directions: Iterable[Direction], limit: int = 12) -> str:
    """Directions for a message: "en-de, de-en"; of many, the first ones and their number."""
    names = [*map(str, directions)]
    rest = f" and {len(names) - limit} others" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest

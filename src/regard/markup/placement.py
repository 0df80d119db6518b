"""Placement of tags in a translation by word alignment.

Each element gets one interval of target words, inside the interval of the element around it and
apart from those of its siblings. So each tag of the source occurs once in the translation, and tags
are nested as in the source. Of all intervals, the one with the most words that are aligned to words
of the element, minus those aligned to other words, is chosen: where an element is scattered, it
surrounds the place with most of its words rather than everything between the first and the last.
"""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import NamedTuple

from regard.markup.block import Node

UNALIGNED = -1
Intervals = dict[int, tuple[int, int]]  # of target words, by the number of a sibling


class SourceSpan(NamedTuple):
    """The source words of a node; an empty one is before word `start`."""

    start: int
    end: int


class Placed(NamedTuple):
    """A node, and the target words that it contains; an empty one is before word `start`."""

    node: Node
    start: int
    end: int
    children: list[Placed]


class Placement:
    """Places nodes in a translation of some words, given the source word of each of them."""

    def __init__(self, alignment: Sequence[int], spans: dict[int, SourceSpan]) -> None:
        self._alignment = alignment
        self._spans = spans  # by the id of a node
        self._positions: dict[int, list[int]] = {}  # of the words that are aligned to a source word
        for position, source in enumerate(alignment):
            if source != UNALIGNED:
                self._positions.setdefault(source, []).append(position)
        self._sources = sorted(self._positions)
        self._aligned_before = [*accumulate((i != UNALIGNED for i in alignment), initial=0)]

    def place(
        self, nodes: Sequence[Node], parent: SourceSpan, start: int, end: int
    ) -> list[Placed]:
        """The nodes inside an interval of target words, in the order of the translation."""
        intervals: Intervals = {}
        free = [(start, end)]  # in order
        for number in self._by_support(nodes, parent, start, end):
            interval, stretch = self._best(self._spans[id(nodes[number])], parent, free)
            if interval[0] < interval[1]:  # siblings may have taken all of its words
                intervals[number] = interval
                place = bisect(free, stretch) - 1
                free[place : place + 1] = (stretch[0], interval[0]), (interval[1], stretch[1])
        for number, node in enumerate(nodes):
            if number not in intervals:
                gap = _outside(self._gap(node, parent, start, end), number, intervals)
                intervals[number] = self._near(gap, node, intervals, start, end)
        order = sorted(range(len(nodes)), key=lambda number: (*intervals[number], number))
        return [self._placed(nodes[number], *intervals[number]) for number in order]

    def _placed(self, node: Node, start: int, end: int) -> Placed:
        children = self.place(node.children, self._spans[id(node)], start, end)
        return Placed(node, start, end, children)

    def _by_support(
        self, nodes: Sequence[Node], parent: SourceSpan, start: int, end: int
    ) -> list[int]:
        """The nodes that some target word is aligned to; elements with the most words first."""
        support = {}
        for number, node in enumerate(nodes):
            interval, _ = self._best(self._spans[id(node)], parent, [(start, end)])
            if interval[0] < interval[1]:
                support[number] = interval[1] - interval[0]
        # Spans first: an element around one would leave no place for it.
        return sorted(
            support,
            key=lambda number: (nodes[number].original is None, -support[number], number),
        )

    def _best(
        self, span: SourceSpan, parent: SourceSpan, free: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """The best interval for the words of a span, and the free stretch that it is in."""
        if span == parent and span.start < span.end:
            longest = max(free, key=lambda stretch: stretch[1] - stretch[0])
            return longest, longest
        best, where, best_rank = (0, 0), (0, 0), (0, 0)
        positions = sorted(
            chain.from_iterable(self._positions.get(source, ()) for source in range(*span))
        )
        for stretch, inside in groupby(positions, lambda position: _stretch(free, position)):
            if stretch is not None:
                interval, rank = self._best_inside([*inside])
                if rank > best_rank:
                    best, where, best_rank = interval, stretch, rank
        return best, where

    def _best_inside(self, positions: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
        """The interval with the highest rank: agreement, then words of the span; the first one.

        `positions` are those of words of the span in a free stretch.
        """
        best, best_rank = (0, 0), (0, 0)
        first, rank = 0, (0, 0)  # of the best interval that ends here
        previous = 0
        for position in positions:
            others = self._aligned_before[position] - self._aligned_before[previous]
            rank = rank[0] - others, rank[1]
            if rank <= (0, 0):
                first, rank = position, (0, 0)
            rank = rank[0] + 1, rank[1] + 1
            if rank > best_rank:
                best, best_rank = (first, position + 1), rank
            previous = position + 1
        return best, best_rank

    def _gap(self, node: Node, parent: SourceSpan, start: int, end: int) -> int:
        """Where a node without target words is placed: beside the word that it stands beside."""
        place, last = self._spans[id(node)]
        if place == parent.start:
            return start
        if last == parent.end:
            return end
        for source in self._neighbours(node, place, last, parent):
            positions = self._positions[source]
            inside = positions[bisect_left(positions, start) : bisect_left(positions, end)]
            if inside:
                return inside[0] if source >= place else inside[-1] + 1
        fraction = (place - parent.start) / max(1, parent.end - parent.start)
        return start + round(fraction * (end - start))

    def _neighbours(self, node: Node, place: int, last: int, parent: SourceSpan) -> Iterator[int]:
        """The aligned source words beside a node, the nearest first."""
        after_first = node.space_before or not node.space_after
        sources = self._sources
        end = bisect_left(sources, place)
        before = (sources[i] for i in range(end - 1, bisect_left(sources, parent.start) - 1, -1))
        start = bisect_left(sources, last)
        after = (sources[i] for i in range(start, bisect_left(sources, parent.end)))

        def rank(source: int) -> tuple[int, bool]:
            is_after = source >= last
            distance = source - last if is_after else place - 1 - source
            return distance, is_after != after_first

        return merge(before, after, key=rank)

    def _near(
        self, gap: int, node: Node, siblings: Intervals, start: int, end: int
    ) -> tuple[int, int]:
        """The interval of a node that no word is aligned to.

        An element with words in the source gets a word beside the place, so that a link does not
        become invisible; others are empty.
        """
        span = self._spans[id(node)]
        if node.kind == "element" and span.start < span.end:
            places = [place for place in (gap, gap - 1) if start <= place < end]
            for place in sorted(places, key=lambda place: self._alignment[place] != UNALIGNED):
                is_free = all(not first <= place < last for first, last in siblings.values())
                splits = any(first == last and first == gap for first, last in siblings.values())
                if is_free and not splits:
                    return place, place + 1
        return gap, gap


def _stretch(free: Sequence[tuple[int, int]], position: int) -> tuple[int, int] | None:
    """The free stretch that a position is in."""
    place = bisect(free, position, key=itemgetter(0)) - 1
    return free[place] if place >= 0 and position < free[place][1] else None


def _outside(gap: int, number: int, siblings: Intervals) -> int:
    """The nearest place that is not inside a sibling that has words."""
    for sibling, (start, end) in siblings.items():
        if start < gap < end:
            return end if sibling < number else start
    return gap

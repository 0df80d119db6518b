"""How good alignments are: precision, recall and the alignment error rate.

(Och and Ney, 2003.) People mark links as sure, or as possible where they would not insist; all
sure links are possible. With the links A that were found, sure S and possible P:

    precision = |A n P| / |A|      recall = |A n S| / |S|
    AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.aligner import Ids
from regard.data.corpus import read_lines
from regard.data.links import Links, Rule, links_of, parsed
from regard.decoding.attention_maps import Seen, View
from regard.errors import DataError


@dataclass(frozen=True)
class Gold:
    """The links of one pair as somebody marked them."""

    sure: Links
    possible: Links  # the sure ones among them


@dataclass(frozen=True)
class Agreement:
    """How far found links agree with marked ones, from 0 to 1."""

    precision: float
    recall: float
    error_rate: float


def agreement(found: Iterable[Links], gold: Iterable[Gold]) -> Agreement:
    """Over all pairs together; where nothing was found or is sure, nothing is wrong with it."""
    links = sure = right = recalled = 0
    for own, marked in zip(found, gold, strict=True):
        links += len(own)
        sure += len(marked.sure)
        right += len(own & marked.possible)
        recalled += len(own & marked.sure)
    return Agreement(
        precision=right / links if links else 1.0,
        recall=recalled / sure if sure else 1.0,
        error_rate=1 - (recalled + right) / (links + sure) if links + sure else 0.0,
    )


def taken_as_gold(forward: Ids, backward: Ids) -> Gold:
    """What an aligner says, where nobody has marked anything.

    What both directions agree on is sure, and what grows around it is possible.
    """
    return Gold(
        links_of(forward, backward, "intersection"),
        links_of(forward, backward, "grow-diag-final-and"),
    )


def error_rates(
    seen: Sequence[Seen],
    gold: Sequence[Gold],
    rule: Rule,
    carried: Callable[[int, Links], Links] | None = None,
) -> dict[View, float]:
    """The alignment error rate of every view of attention.

    `carried` makes the links of a pair into such as the gold ones are, if they are not.
    """

    def links(view: View) -> Iterator[Links]:
        for number, one in enumerate(seen):
            found = links_of(*one.through(view), rule)
            yield found if carried is None else carried(number, found)

    return {view: agreement(links(view), gold).error_rate for view in seen[0].views}


def read_gold(path: Path, sizes: Sequence[tuple[int, int]]) -> list[Gold]:
    """A line of links for each pair, which has so many source and target words."""
    lines = read_lines(path)
    if len(lines) != len(sizes):
        raise DataError(
            f"{path} has {len(lines)} lines, and the text has {len(sizes)}. Lines must correspond "
            "one to one."
        )
    gold = []
    for number, (line, (sources, targets)) in enumerate(zip(lines, sizes, strict=True), 1):
        where = f"{path}, line {number}"
        sure, possible = parsed(line, where)
        if any(i >= sources or j >= targets for i, j in possible):
            raise DataError(
                f"{where}: a link goes beyond the {sources} and {targets} words of this line. "
                "Words are what stands between spaces, counted from 0."
            )
        gold.append(Gold(sure, possible))
    return gold

"""Metrics of word alignments: precision, recall and alignment error rate (Och and Ney, 2003).

Gold links are annotated as sure or possible; all sure links are possible, too. With predicted
links A, sure links S and possible links P:

    precision = |A n P| / |A|      recall = |A n S| / |S|
    AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.aligner import Ids
from regard.data.alignments import Links, Symmetrization, parse_pharaoh, symmetrize
from regard.data.line_reader import read_lines
from regard.decoding.attention_maps import AlignmentHead, HeadAlignments
from regard.errors import DataError


@dataclass(frozen=True)
class GoldAlignment:
    """The annotated links of one sentence pair."""

    sure: Links
    possible: Links  # including the sure ones


@dataclass(frozen=True)
class AlignmentScores:
    """Precision, recall and alignment error rate, from 0 to 1."""

    precision: float
    recall: float
    error_rate: float


def score_alignments(predicted: Iterable[Links], gold: Iterable[GoldAlignment]) -> AlignmentScores:
    """Score the links of all pairs together; an empty set of links is scored as correct."""
    total = sure = correct = recalled = 0
    for links, gold_alignment in zip(predicted, gold, strict=True):
        total += len(links)
        sure += len(gold_alignment.sure)
        correct += len(links & gold_alignment.possible)
        recalled += len(links & gold_alignment.sure)
    return AlignmentScores(
        precision=correct / total if total else 1.0,
        recall=recalled / sure if sure else 1.0,
        error_rate=1 - (recalled + correct) / (total + sure) if total + sure else 0.0,
    )


def silver_alignment(forward: Ids, backward: Ids) -> GoldAlignment:
    """Derive a reference from aligner output: intersection is sure, grow-diag possible."""
    return GoldAlignment(
        symmetrize(forward, backward, "intersection"),
        symmetrize(forward, backward, "grow-diag-final-and"),
    )


def alignment_error_rates(
    alignments: Sequence[HeadAlignments],
    gold: Sequence[GoldAlignment],
    symmetrization: Symmetrization,
    convert: Callable[[int, Links], Links] | None = None,
) -> dict[AlignmentHead, float]:
    """Return the alignment error rate of every attention head.

    `convert` maps the links of a pair to the units of the gold alignment, such as words.
    """

    def links(head: AlignmentHead) -> Iterator[Links]:
        for number, pair in enumerate(alignments):
            symmetrized = symmetrize(*pair.by_head(head), symmetrization)
            yield symmetrized if convert is None else convert(number, symmetrized)

    return {head: score_alignments(links(head), gold).error_rate for head in alignments[0].heads}


def read_gold_alignments(path: Path, sizes: Sequence[tuple[int, int]]) -> list[GoldAlignment]:
    """Read a line of links per pair; `sizes` are the numbers of source and target words."""
    lines = read_lines(path)
    if len(lines) != len(sizes):
        raise DataError(
            f"{path} has {len(lines)} lines, but the text has {len(sizes)}. The file must have one "
            "line per sentence pair."
        )
    gold = []
    for number, (line, (sources, targets)) in enumerate(zip(lines, sizes, strict=True), 1):
        location = f"{path}, line {number}"
        sure, possible = parse_pharaoh(line, location)
        if any(i >= sources or j >= targets for i, j in possible):
            raise DataError(
                f"{location}: a link is out of range: this pair has {sources} source and {targets} "
                "target words. Indices count whitespace-separated words from 0."
            )
        gold.append(GoldAlignment(sure, possible))
    return gold

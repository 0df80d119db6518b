"""Filters by the scores of sentence pairs: thresholds, and shares of the best pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.bounds import Ge, Le
from regard.config import Doc, Settings

Floats = NDArray[np.float64]
Scores = Mapping[str, Floats]  # of each pair, by the name of the score


@dataclass(frozen=True)
class ScoreFilterConfig(Settings):
    """Filters by scores."""

    min_dual: Annotated[
        float | None,
        Doc("minimum dual cross-entropy score, of --forward-model and --reverse-model"),
        Ge(0),
        Le(1),
    ] = None
    keep_dual: Annotated[
        float | None,
        Doc("share of the pairs to keep: those with the highest dual cross-entropy score"),
        Ge(0),
        Le(1),
    ] = None
    min_alignment: Annotated[
        float | None,
        Doc("minimum alignment score: mean log-probability of a word given the other side"),
        Ge(-1000),
        Le(0),
    ] = None
    keep_alignment: Annotated[
        float | None,
        Doc("share of the pairs to keep: those with the highest alignment score"),
        Ge(0),
        Le(1),
    ] = None

    def limits(self, score: str) -> tuple[float | None, float | None]:
        """The minimum of a score and the share of pairs to keep; None if not set."""
        return getattr(self, f"min_{score}"), getattr(self, f"keep_{score}")

    def uses(self, score: str) -> bool:
        """Whether a filter by this score is set."""
        return any(limit is not None for limit in self.limits(score))


SCORE_NAMES = {"dual": "dual cross-entropy score", "alignment": "alignment score"}


def threshold(scores: Floats, minimum: float | None, share: float | None) -> float:
    """The lowest score to keep; pairs with equal scores are all kept or all filtered out."""
    best = -np.inf if minimum is None else minimum
    if share is None or not len(scores):
        return best
    rank = ceil(share * len(scores) - 1e-9)  # 0.07 * 100 is more than 7
    return max(best, float(np.sort(scores)[-rank])) if rank else np.inf


def rejected_by_score(
    scores: Scores, config: ScoreFilterConfig
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """For each score with a filter, the reason and which pairs are filtered out.

    The filters do not depend on each other: shares are those of all pairs that have scores.
    """
    for score, name in SCORE_NAMES.items():
        if config.uses(score):
            limit = threshold(scores[score], *config.limits(score))
            yield f"{name} below {limit:.4g}", scores[score] < limit

"""Dual conditional cross-entropy (Junczys-Dowmunt, 2018, arXiv:1809.00197): scores of pairs.

A pair is good if a model of each direction finds it probable, and both agree:

    H_f = -log p(target | source) / tokens      H_r = -log p(source | target) / tokens
    score = exp(-(|H_f - H_r| + (H_f + H_r) / 2))

Misaligned pairs have high cross-entropies in both directions; copied, truncated and trivial ones
differ between the directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from regard.data.score_filter import Floats
from regard.errors import ConfigError
from regard.pipelines.text_stream import StreamKeywords
from regard.pipelines.translator import Translator

TextPairs = Iterable[tuple[str, str]]


def dual_scores(forward: Floats, reverse: Floats) -> Floats:
    """The scores of pairs, between 0 and 1, from their cross-entropies in both directions."""
    difference = np.abs(forward - reverse)
    scores: Floats = np.exp(-(difference + (forward + reverse) / 2))
    return scores


@dataclass(frozen=True)
class DualScorer:
    """Scores pairs by two models of opposite directions."""

    forward: Translator
    reverse: Translator
    keywords: StreamKeywords = field(default_factory=StreamKeywords)

    def __post_init__(self) -> None:
        """Raise an error if the models do not translate in opposite directions."""
        forward, reverse = self.forward.text, self.reverse.text
        opposite = {
            "source": reverse.languages["target"],
            "target": reverse.languages["source"],
        }
        if forward.mismatched_side(opposite):
            raise ConfigError(
                f"{self.forward.paths[0]} translates from {forward.direction}, and "
                f"{self.reverse.paths[0]} from {reverse.direction}, which is not the opposite "
                "direction. Give two models of opposite directions."
            )

    def scores(self, pairs: Callable[[str], TextPairs]) -> dict[str, Floats]:
        """Cross-entropies by direction, and the dual score; `pairs` is called for each direction.

        Its argument describes the pass.
        """
        forward = self._cross_entropies(self.forward, pairs("scoring forward"))
        swapped = ((target, source) for source, target in pairs("scoring reverse"))
        reverse = self._cross_entropies(self.reverse, swapped)
        return {"forward": forward, "reverse": reverse, "dual": dual_scores(forward, reverse)}

    def _cross_entropies(self, translator: Translator, pairs: TextPairs) -> Floats:
        """The cross-entropy of each target given its source, per token."""
        scores = translator.score_iterable(
            pairs, length_penalty=1.0, document_context=False, **self.keywords
        )
        return -np.fromiter(scores, np.float64)

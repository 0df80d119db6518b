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

from regard.config import build
from regard.data.score_filter import Floats
from regard.decoding.text_config import DirectionConfig, DirectionKeywords
from regard.errors import ConfigError
from regard.pipelines.directions import select_direction
from regard.pipelines.text_stream import StreamKeywords
from regard.pipelines.translator import Translator
from regard.text.language_codes import base_language

TextPairs = Iterable[tuple[str, str]]


def dual_scores(forward: Floats, reverse: Floats) -> Floats:
    """The scores of pairs, between 0 and 1, from their cross-entropies in both directions."""
    difference = np.abs(forward - reverse)
    scores: Floats = np.exp(-(difference + (forward + reverse) / 2))
    return scores


@dataclass(frozen=True)
class DualScorer:
    """Scores pairs by two models of opposite directions; one of several directions may be both."""

    forward: Translator
    reverse: Translator
    keywords: StreamKeywords = field(default_factory=StreamKeywords)
    languages: tuple[str | None, str | None] = (None, None)  # of sources and targets

    def __post_init__(self) -> None:
        """Raise an error if the models do not translate between the languages of the pairs."""
        self._direction(self.forward, *self.languages)
        self._direction(self.reverse, *reversed(self.languages))
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
        source, target = self.languages
        forward = self._cross_entropies(self.forward, pairs("scoring forward"), source, target)
        swapped = ((target, source) for source, target in pairs("scoring reverse"))
        reverse = self._cross_entropies(self.reverse, swapped, target, source)
        return {"forward": forward, "reverse": reverse, "dual": dual_scores(forward, reverse)}

    def _cross_entropies(
        self, translator: Translator, pairs: TextPairs, source: str | None, target: str | None
    ) -> Floats:
        """The cross-entropy of each target given its source, per token."""
        direction = self._direction(translator, source, target)
        scores = translator.score_iterable(
            pairs, length_penalty=1.0, document_context=False, **direction, **self.keywords
        )
        return -np.fromiter(scores, np.float64)

    @staticmethod
    def _direction(
        translator: Translator, source: str | None, target: str | None
    ) -> DirectionKeywords:
        """The keywords of a direction; raises an error if a model does not translate it."""
        text, path = translator.text, translator.paths[0]
        if not text.directions:
            known = text.languages["source"], text.languages["target"]
            for language, expected in zip((source, target), known, strict=True):
                if language and expected and base_language(language) != base_language(expected):
                    raise ConfigError(
                        f"{path} translates {text.direction}, but is given for {source or '?'} to "
                        f"{target or '?'}. Exchange the models, or correct the languages."
                    )
            return {}
        if source is None or target is None:
            raise ConfigError(
                f"{path} is a model of several directions ({text.direction}). Give the languages "
                "of the corpus: --source-lang and --target-lang."
            )
        keywords: DirectionKeywords = {"source_lang": source, "target_lang": target}
        select_direction(text, build(DirectionConfig, dict(keywords)))
        return keywords

"""Reranking of n-best lists by the log-probs of other models.

A hypothesis is scored by `score + sum over rerankers of weight * log p / length`, where `score` is
that of the search. With a reverse-direction model and a language model this is noisy channel
decoding (Yee et al., 2019, arXiv:1908.05731).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.data.model_text import ModelText
from regard.decoding.backend import Backend, Hypothesis, sort_by_score
from regard.decoding.config import SearchConfig

if TYPE_CHECKING:
    from regard.backends.rerankers import Reranker


class RerankBackend(WrappedBackend):
    """Sorts the n-best lists of another backend by a weighted sum of scores."""

    def __init__(
        self,
        inner: Backend,
        rerankers: Sequence[Reranker],
        weights: Sequence[float],
        text: ModelText,
        candidates: int,
    ) -> None:
        super().__init__(inner)
        self._rerankers = [*zip(rerankers, weights, strict=True)]
        self._text, self._candidates = text, candidates

    def inner_config(self, config: SearchConfig) -> SearchConfig:
        """The search for candidates."""
        return replace(config, num_hypotheses=self._candidates, scores=True)

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The n-best list of each request in the new order."""
        texts = self._text.decode_sources([request.segment for request, _ in searched])
        hypotheses = [each for _, nbest in searched for each in nbest]
        sources = [text for text, (_, nbest) in zip(texts, searched, strict=True) for _ in nbest]
        target = self._text.tokenizers.target
        translations = target.decode_all([each.tokens for each in hypotheses])
        totals = [each.score for each in hypotheses]
        for reranker, weight in self._rerankers:
            scores = reranker.score(sources, translations)
            totals = [total + weight * score for total, score in zip(totals, scores, strict=True)]
        rescored = iter(
            each._replace(score=total) for each, total in zip(hypotheses, totals, strict=True)
        )
        for _, nbest in searched:
            ranked = sort_by_score(next(rescored) for _ in nbest)
            yield ranked[: config.num_hypotheses]

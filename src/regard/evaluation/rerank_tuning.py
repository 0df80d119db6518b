"""Weights of rerankers that maximize corpus BLEU on validation data, by coordinate ascent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

from regard.config import build
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.modes import decoding_mode
from regard.decoding.ranking_config import candidate_count
from regard.decoding.text_config import TextConfig, TextConfigKeywords
from regard.evaluation.metrics import MetricConfig, References
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator

Floats = NDArray[np.float64]
_GRID = np.round(np.arange(0, 3.01, 0.05), 2)  # of each weight
_MAX_ROUNDS = 10


@dataclass(frozen=True)
class TunedWeights:
    """The best weights, the translations that they select, and BLEU with and without them."""

    weights: list[float]
    translations: list[str]
    bleu: float
    bleu_without: float

    def __str__(self) -> str:
        options = " ".join(f"--rerank-weight {weight:g}" for weight in self.weights)
        return (
            f"The weights with the highest BLEU are {options}: {self.bleu:.2f}, and "
            f"{self.bleu_without:.2f} without reranking."
        )


@dataclass(frozen=True)
class Nbest:
    """The candidates of a line: their texts, and the score by the search and each reranker."""

    texts: list[str]
    scores: Floats  # (candidates, 1 + rerankers)


def tune_reranking(
    translator: Translator,
    translate: Callable[..., Iterable[Translation]],
    sources: Sequence[str],
    search: SearchKeywords,
    *,
    text: TextConfigKeywords,
    references: References,
    metric_config: MetricConfig,
) -> TunedWeights:
    """Tune the weights of the rerankers in `text` on a validation set.

    `translate` translates the sources with the settings that it is called with.
    """
    ranking, config = build(TextConfig, dict(text)), build(SearchConfig, dict(search))
    mode = decoding_mode(config, translator.decoding_family)
    count = candidate_count(config, ranking, mode)
    others = {name: value for name, value in text.items() if name != "rerank"}
    settings: dict[str, Any] = {**search, **others, "num_hypotheses": count}
    rerankers = translator.rerankers(ranking.rerank)
    nbests = [*map(_candidates, translate(**settings))]
    lines = [source for source, (texts, _) in zip(sources, nbests, strict=True) for _ in texts]
    flat = [candidate for texts, _ in nbests for candidate in texts]
    columns = [[score for _, scores in nbests for score in scores]]
    columns += [reranker.score(lines, flat) for reranker in rerankers]
    table = np.array(columns).T
    ends = np.cumsum([len(texts) for texts, _ in nbests])
    split = np.split(table, ends[:-1])
    candidates = [Nbest(texts, scores) for (texts, _), scores in zip(nbests, split, strict=True)]
    return tune_weights(candidates, references, metric_config)


def _candidates(translation: Translation) -> tuple[list[str], list[float]]:
    ranked = [(translation.text, translation.score)]
    ranked += [(other.text, other.score) for other in translation.alternatives]
    return [text for text, _ in ranked], [score for _, score in ranked]


def tune_weights(
    nbests: Sequence[Nbest], references: References, metric_config: MetricConfig
) -> TunedWeights:
    """The weights of the rerankers with the highest corpus BLEU; the smallest of equal ones.

    One weight at a time takes its best value on a grid, until none changes.
    """
    longest = max(len(nbest.texts) for nbest in nbests)
    rerankers = nbests[0].scores.shape[1] - 1
    scores = np.full((len(nbests), longest, 1 + rerankers), -np.inf)
    statistics = np.zeros((len(nbests), longest, 10), np.int64)
    metric = metric_config.bleu(quiet=True, effective_order=True)
    for number, nbest in enumerate(nbests):
        scores[number, : len(nbest.texts)] = nbest.scores
        lines = [reference[number] for reference in references]
        rows = [_bleu_statistics(metric, text, lines) for text in nbest.texts]
        statistics[number, : len(rows)] = rows
    search, others = scores[..., 0], np.nan_to_num(scores[..., 1:], neginf=0.0)
    sentences = np.arange(len(nbests))

    def selected(weights: Sequence[float]) -> NDArray[np.int64]:
        return np.argmax(search + others @ np.asarray(weights), axis=1)

    def bleu(weights: Sequence[float]) -> float:
        return _corpus_bleu(statistics[sentences, selected(weights)].sum(0).tolist())

    starts = product((0.0, 1.0), repeat=rerankers)
    best = max((_ascend(bleu, [*start]) for start in starts), key=bleu)
    texts = [nbest.texts[index] for nbest, index in zip(nbests, selected(best), strict=True)]
    return TunedWeights(best, texts, bleu(best), bleu([0.0] * rerankers))


def _ascend(objective: Callable[[Sequence[float]], float], weights: list[float]) -> list[float]:
    """Weights of which none can be changed alone to increase the objective."""
    for _ in range(_MAX_ROUNDS):
        before = [*weights]
        for index in range(len(weights)):
            weights = max(_with_values(weights, index), key=objective)
        if weights == before:
            break
    return weights


def _with_values(weights: Sequence[float], index: int) -> Iterator[list[float]]:
    """The weights with each value of the grid at an index, smallest first."""
    for value in _GRID.tolist():
        yield [*weights[:index], value, *weights[index + 1 :]]


def _bleu_statistics(metric: BLEU, text: str, references: Sequence[str]) -> list[int]:
    """Matching and all n-grams of each order, and the lengths of translation and reference."""
    score = metric.sentence_score(text, references)
    return [*score.counts, *score.totals, score.sys_len, score.ref_len]


def _corpus_bleu(statistics: list[int]) -> float:
    *counts, length, reference_length = statistics
    score = BLEU.compute_bleu(counts[:4], counts[4:], length, reference_length, "exp")
    return float(score.score)

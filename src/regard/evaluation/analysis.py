"""Error analysis of translations: BLEU by length, worst sentences, repeated words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.evaluation.metrics import MetricConfig, References


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose first references have between `shortest` and `longest` words."""

    shortest: int
    longest: int
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The range of lengths, such as "3-7"."""
        if self.shortest == self.longest:
            return str(self.shortest)
        return f"{self.shortest}-{self.longest}"


@dataclass(frozen=True)
class Sentence:
    """One line of a test set, counted from 1, with its chrF2."""

    line: int
    score: float
    source: str | None
    translation: str
    reference: str  # the first of `references`
    references: list[str]


def bleu_by_length(
    hypotheses: Sequence[str],
    references: References,
    metric_config: MetricConfig,
    *,
    parts: int = 5,
) -> list[LengthBucket]:
    """Return BLEU in buckets of the first reference's length in words, from short to long."""
    # The effective order matters only where no sentence of a bucket has four words: without it
    # even perfect translations would score 0.
    metric = metric_config.bleu(quiet=True, effective_order=True)
    lengths = [len(metric.tokenizer(reference.rstrip()).split()) for reference in references[0]]
    buckets = []
    for lines in length_buckets(lengths, parts):
        score = metric.corpus_score(
            [hypotheses[line] for line in lines],
            [[reference[line] for line in lines] for reference in references],
        )
        bucket_lengths = [lengths[line] for line in lines]
        shortest, longest = min(bucket_lengths), max(bucket_lengths)
        buckets.append(LengthBucket(shortest, longest, len(lines), score.score))
    return buckets


def length_buckets(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """Return the indices of all lengths, in at most `parts` buckets from short to long.

    Buckets are of about equal size, with equal lengths in one bucket, so that their BLEU scores are
    about equally reliable.
    """
    bounds = np.unique(
        np.quantile(lengths, np.arange(1, parts + 1) / parts, method="inverted_cdf")
    )  # each bound is a length that occurs, so no bucket is empty
    groups = np.searchsorted(bounds, lengths)
    return [np.flatnonzero(groups == group).tolist() for group in range(len(bounds))]


def sentence_scores(
    hypotheses: Sequence[str], references: References, metric_config: MetricConfig
) -> list[float]:
    """Return the chrF2 of each sentence, which is more stable than sentence BLEU."""
    metric = metric_config.chrf()
    return [
        # An empty translation of an empty reference is correct; sacrebleu would give 0.
        metric.sentence_score(hypothesis, line_references).score
        if hypothesis.strip() or any(map(str.strip, line_references))
        else 100.0
        for hypothesis, *line_references in zip(hypotheses, *references, strict=True)
    ]


def worst_sentences(
    hypotheses: Sequence[str],
    references: References,
    metric_config: MetricConfig,
    *,
    count: int,
    sources: Sequence[str] | None = None,
) -> list[Sentence]:
    """Return the sentences with the lowest chrF2, the worst first."""
    if not count:
        return []
    scores = sentence_scores(hypotheses, references, metric_config)
    lines = sorted(range(len(scores)), key=scores.__getitem__)[:count]
    return [
        Sentence(
            line + 1,
            scores[line],
            sources[line] if sources else None,
            hypotheses[line],
            references[0][line],
            [reference[line] for reference in references],
        )
        for line in lines
    ]


def repetition_rate(texts: Sequence[str]) -> float:
    """Return the percentage of words that repeat the word before them."""
    lines = [text.split() for text in texts]
    repeated = sum(a == b for line in lines for a, b in pairwise(line))
    return 100 * repeated / max(sum(map(len, lines)), 1)

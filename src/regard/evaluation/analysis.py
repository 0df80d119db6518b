"""Where translations are good and where they are not: by length, the worst, what is said twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.evaluation.metrics import Counting, References


@dataclass(frozen=True)
class LengthBucket:
    """The sentences whose first references have between `shortest` and `longest` words."""

    shortest: int
    longest: int
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """How many words the sentences have."""
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


def by_length(
    hypotheses: Sequence[str], references: References, counting: Counting, *, parts: int = 5
) -> list[LengthBucket]:
    """BLEU of short to long sentences, by the number of words of their first references."""
    # The effective order makes a difference only where no sentence of a bucket has four words:
    # without it even perfect translations would get 0.
    metric = counting.bleu(quiet=True, effective_order=True)
    lengths = [len(metric.tokenizer(reference.rstrip()).split()) for reference in references[0]]
    found = []
    for lines in buckets(lengths, parts):
        score = metric.corpus_score(
            [hypotheses[line] for line in lines],
            [[reference[line] for line in lines] for reference in references],
        )
        inside = [lengths[line] for line in lines]
        found.append(LengthBucket(min(inside), max(inside), len(lines), score.score))
    return found


def buckets(lengths: Sequence[int], parts: int) -> list[list[int]]:
    """The places of all lengths, in at most `parts` groups from short to long.

    Groups are as equal in size as they can be while equal lengths stay together, so that the BLEU
    of one is about as trustworthy as that of the next, for captions as for long text.
    """
    bounds = np.unique(
        np.quantile(lengths, np.arange(1, parts + 1) / parts, method="inverted_cdf")
    )  # each bound is a length that occurs, so no group is empty
    groups = np.searchsorted(bounds, lengths)
    return [np.flatnonzero(groups == group).tolist() for group in range(len(bounds))]


def sentence_scores(
    hypotheses: Sequence[str], references: References, counting: Counting
) -> list[float]:
    """The chrF2 of each sentence: steadier than BLEU, which few words make jump."""
    metric = counting.chrf()
    return [
        # Nothing for nothing is right, though there is no character to count.
        metric.sentence_score(hypothesis, right).score
        if hypothesis.strip() or any(map(str.strip, right))
        else 100.0
        for hypothesis, *right in zip(hypotheses, *references, strict=True)
    ]


def worst(
    hypotheses: Sequence[str],
    references: References,
    counting: Counting,
    *,
    count: int,
    sources: Sequence[str] | None = None,
) -> list[Sentence]:
    """The sentences with the lowest chrF2, the worst first."""
    if not count:
        return []
    scores = sentence_scores(hypotheses, references, counting)
    chosen = sorted(range(len(scores)), key=scores.__getitem__)[:count]
    return [
        Sentence(
            line + 1,
            scores[line],
            sources[line] if sources else None,
            hypotheses[line],
            references[0][line],
            [reference[line] for reference in references],
        )
        for line in chosen
    ]


def repeated_words(texts: Sequence[str]) -> float:
    """Of a hundred words, how many are the same as the word before them."""
    lines = [text.split() for text in texts]
    repeated = sum(a == b for line in lines for a, b in pairwise(line))
    return 100 * repeated / max(sum(map(len, lines)), 1)

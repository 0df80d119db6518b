"""BLEU, chrF and TER, by sacrebleu and with its signatures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

TOKENIZERS = tuple(name for name in BLEU.TOKENIZERS if not name.startswith("flores"))


@dataclass(frozen=True)
class Result:
    """A figure that can be quoted: the number and how it was counted."""

    name: str
    value: float
    signature: str


def evaluate(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool, tokenize: str = "13a"
) -> list[Result]:
    """All metrics over a whole test set."""
    metrics = [
        BLEU(lowercase=lowercase, tokenize=tokenize),
        CHRF(lowercase=lowercase),
        TER(),  # sacrebleu counts it without case, and its signature says so
    ]
    results = []
    for metric in metrics:
        score = metric.corpus_score(list(hypotheses), [list(references)])
        results.append(Result(score.name, score.score, str(metric.get_signature())))
    return results


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """BLEU alone, as the training loop watches it."""
    return float(BLEU(force=True).corpus_score(list(hypotheses), [list(references)]).score)


def exact_matches(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of hypotheses that are their reference, letter for letter."""
    equal = sum(h == r for h, r in zip(hypotheses, references, strict=True))
    return equal / len(references)

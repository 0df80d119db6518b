"""What a search finds, and how it is scored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from regard.text.special import SPECIAL


class Hypothesis(NamedTuple):
    """A finished sentence of ids, without its end mark."""

    tokens: list[int]
    log_probability: float  # summed over all tokens, the end mark included
    score: float


def finished(
    tokens: list[int], log_probability: float, length_penalty: float, counted: int | None = None
) -> Hypothesis:
    """A hypothesis from ids that end in the end mark; counted: its length, if that is another."""
    assert tokens[-1] == SPECIAL.end
    score = normalized(log_probability, counted or len(tokens), length_penalty)
    return Hypothesis(tokens[:-1], log_probability, score)


def normalized(log_probability: float, length: int, length_penalty: float) -> float:
    """`log p / length^alpha`, the end mark counted: alpha 0 favours short, 1 is the mean."""
    return float(log_probability / length**length_penalty)


def best_first(found: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Hypotheses from the best to the worst."""
    return sorted(found, key=lambda hypothesis: hypothesis.score, reverse=True)

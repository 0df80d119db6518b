"""Why scores are divided by sqrt(d): what softmax makes of random queries and keys, measured."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.attention.scores import Score, dot, scaled_dot


@dataclass(frozen=True)
class Saturation:
    """One width and one score: how far scores spread, and what is left for learning."""

    width: int
    score: str
    spread: float  # standard deviation of the scores
    largest: float  # mean of the largest weight of a query; 1: it sees one key only
    gradient: float  # mean of the largest derivative of a weight by its score; at most 1/4


def measured(width: int, *, keys: int = 32, queries: int = 512, seed: int = 0) -> list[Saturation]:
    """Unscaled and scaled products of independent numbers of variance 1."""
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(queries, n, width, generator=generator) for n in (1, keys))
    return [
        _measured(name, score, query, key)
        for name, score in (("dot", dot), ("scaled dot", scaled_dot))
    ]


def _measured(name: str, score: Score, query: torch.Tensor, key: torch.Tensor) -> Saturation:
    scores = score(query, key).squeeze(1)  # (queries, keys)
    weights = scores.softmax(-1)
    slopes = weights * (1 - weights)  # d weight / d its own score
    return Saturation(
        query.shape[-1],
        name,
        float(scores.std()),
        float(weights.amax(-1).mean()),
        float(slopes.amax(-1).mean()),
    )

"""Measures how softmax saturates without the scaling of scores by 1 / sqrt(d)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from regard.attention.scores import Score, dot, scaled_dot


@dataclass(frozen=True)
class Saturation:
    """Statistics of the softmax of one score function at one dimension."""

    width: int
    score: str
    spread: float  # standard deviation of the scores
    largest: float  # mean over queries of the largest weight
    gradient: float  # mean of the largest derivative of a weight by its score; at most 1/4


def measure_saturation(
    width: int, *, keys: int = 32, queries: int = 512, seed: int = 0
) -> list[Saturation]:
    """Statistics of unscaled and scaled dot products of random vectors of variance 1."""
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(queries, n, width, generator=generator) for n in (1, keys))
    return [
        _measure(name, score, query, key)
        for name, score in (("dot", dot), ("scaled dot", scaled_dot))
    ]


def _measure(name: str, score: Score, query: torch.Tensor, key: torch.Tensor) -> Saturation:
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

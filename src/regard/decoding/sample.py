"""Sampling: temperature, top-k and top-p, each a pure function, and a seeded draw.

Every sentence draws from a generator of its own, so its sample does not depend on its neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.decoding.greedy import Choose
from regard.decoding.words import Words


def sampler(
    generators: Sequence[np.random.Generator], *, temperature: float, top_k: int, top_p: float
) -> Choose:
    """A `choose` for `greedy_search` that draws instead of taking the likeliest."""

    def choose(words: Words, sentences: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = words.all()
        likely = kept_top_p(kept_top_k(log_probs / temperature, top_k), top_p)
        draws = torch.tensor([generators[sentence].random() for sentence in sentences.tolist()])
        tokens = drawn(likely.softmax(-1), draws.to(log_probs.device))[:, None]
        return log_probs.gather(1, tokens), tokens

    return choose


def kept_top_k(log_probs: Tensor, k: int) -> Tensor:
    """Only the k likeliest stay; k = 0: all. (B, V) -> the same"""
    if k == 0 or k >= log_probs.shape[-1]:
        return log_probs
    least = log_probs.topk(k, dim=-1).values[..., -1:]
    return log_probs.masked_fill(log_probs < least, -torch.inf)


def kept_top_p(log_probs: Tensor, p: float) -> Tensor:
    """Only the likeliest stay that together reach probability p. (B, V) -> the same"""
    if p >= 1.0:
        return log_probs
    ordered, places = log_probs.softmax(-1).sort(dim=-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    enough = (before >= p) & (before > 0)  # the likeliest always stays
    dropped = torch.zeros_like(enough).scatter(-1, places, enough)
    return log_probs.masked_fill(dropped, -torch.inf)


def drawn(probabilities: Tensor, draws: Tensor) -> Tensor:
    """The word at which the running sum passes a draw from [0, 1). (B, V), (B,) -> (B,)"""
    sums = probabilities.double().cumsum(-1)
    chosen = torch.searchsorted(sums, (draws.double() * sums[:, -1])[:, None], right=True)
    # Rounding must not choose a word of probability zero behind the last possible one.
    last = (probabilities > 0).int().cumsum(-1).argmax(-1, keepdim=True)
    return chosen.minimum(last).squeeze(1)


def keyed_generator(seed: int, number: int, ids: list[int]) -> np.random.Generator:
    """Keyed by the sentence itself: the same in any batch, order or file."""
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
    return np.random.default_rng([seed, number, int.from_bytes(digest[:8], "little")])

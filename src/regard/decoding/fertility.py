"""How many words each source token is given: chosen, drawn, and kept within limits.

All of this happens on the host, on the few numbers that a model says about fertilities.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.sample import drawn, keyed_generator
from regard.models.nonautoregressive import never_silent


def fertilities(log_probs: Tensor, source: Ragged, config: SearchConfig) -> Tensor:
    """Rows of fertilities: the likeliest or the mean ones, then drawn ones.

    log_probs (N, classes) -> (candidates, N)
    """
    if config.fertility == "average":
        classes = torch.arange(log_probs.shape[1])
        first = (log_probs.exp() * classes).sum(-1).round().long()
    else:
        first = log_probs.argmax(-1)
    if config.candidates == 1:
        return first[None]
    draws = _draws(source, config.candidates - 1, config.seed)
    return torch.cat([first[None], drawn_all(log_probs.exp(), draws)])


def _draws(source: Ragged, rounds: int, seed: int) -> Tensor:
    """Numbers between 0 and 1, keyed by the sentence: the same in any batch. (rounds, N)"""
    sentences = source.tokens.split(source.lengths.host.tolist())
    parts = [keyed_generator(seed, 0, ids.tolist()).random((rounds, len(ids))) for ids in sentences]
    return torch.from_numpy(np.concatenate(parts, 1))


def drawn_all(probabilities: Tensor, draws: Tensor) -> Tensor:
    """`drawn` for several draws of each row. (N, classes), (rounds, N) -> (rounds, N)"""
    rounds, rows = draws.shape
    return drawn(probabilities.repeat(rounds, 1), draws.flatten()).view(rounds, rows)


def limited(
    rows: Tensor, source: Ragged, config: SearchConfig, max_length: int | None = None
) -> Tensor:
    """Fertilities that sum to no more than a sentence's limit, and to no less than one word.

    rows (candidates, N) -> (candidates, N)
    """
    lengths = source.lengths
    limits = torch.tensor([config.limit(n, max_length) - 1 for n in lengths.host.tolist()])
    before = rows.cumsum(1) - rows
    before = before - before[:, lengths.offsets[:-1].long()][:, lengths.sentence]
    rows = rows.minimum((limits[lengths.sentence] - before).clamp(min=0))
    return never_silent(rows, lengths)

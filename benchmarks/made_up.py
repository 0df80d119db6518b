"""Random sentences for a model with random weights, all translated into so many tokens."""

from __future__ import annotations

import numpy as np

from exercise import Exercise
from lesson import FIRST_WORD, SIZES
from peers.ours import model_config
from regard.config import as_tree

SOURCE = 32  # tokens of a sentence, end mark included


def made_up(
    size: str,
    vocabulary: int,
    device: str,
    *,
    beam_size: int,
    batch_size: int,
    batches: int,
    forced: int,
    half: bool,
) -> Exercise:
    """The paper's model in one of its sizes; a batch of one sentence is one by one."""
    shape = (batch_size * batches, SOURCE - 1)
    ids = np.random.default_rng(1).integers(FIRST_WORD, vocabulary, shape)
    return Exercise(
        device,
        beam_size,
        ids.tolist(),
        config=as_tree(model_config(SIZES[size])),
        vocabulary=vocabulary,
        work=".",
        one_by_one=batch_size == 1,
        batch_size=batch_size,
        forced=forced,
        half=half,
    )

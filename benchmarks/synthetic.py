"""Decoding tasks with random sentences, random weights and a forced output length."""

from __future__ import annotations

import numpy as np

from decoding_task import DecodingTask
from peers.ours import model_config
from regard.settings_tree import to_tree
from training_task import FIRST_TOKEN, SIZES

SOURCE_LENGTH = 32  # tokens, including EOS


def synthetic_task(
    size: str,
    vocabulary: int,
    device: str,
    *,
    beam_size: int,
    batch_size: int,
    batches: int,
    forced_length: int,
    use_bfloat16: bool,
) -> DecodingTask:
    """A task for a Transformer of the given size; batches of one are translated one by one."""
    shape = (batch_size * batches, SOURCE_LENGTH - 1)
    ids = np.random.default_rng(1).integers(FIRST_TOKEN, vocabulary, shape)
    return DecodingTask(
        device,
        beam_size,
        ids.tolist(),
        config=to_tree(model_config(SIZES[size])),
        vocabulary=vocabulary,
        work=".",
        one_by_one=batch_size == 1,
        batch_size=batch_size,
        forced_length=forced_length,
        use_bfloat16=use_bfloat16,
    )

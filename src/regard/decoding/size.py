"""Whether a search fits into memory: how many sentences at once, and which are too many."""

from __future__ import annotations

import torch

from regard.decoding.config import SearchConfig
from regard.memory import refuse_beyond

_USUAL_BEAMS = 8  # with which the batch sizes that we choose were measured


def fewer_with_beams(sentences: int, config: SearchConfig) -> int:
    """A usual batch size; with many beams, as many sentences as take the same memory."""
    return max(1, sentences * _USUAL_BEAMS // max(_USUAL_BEAMS, config.beam_size))


def refuse_large_search(
    config: SearchConfig, sentences: int, vocabulary: int, device: torch.device
) -> None:
    """Say that the scores of a step cannot fit: logits and log-probabilities of each beam."""
    beams = max(config.beam_size, config.candidates)
    refuse_beyond(
        2 * sentences * beams * vocabulary,
        f"One step of {sentences:,} sentences with {beams:,} beams over a vocabulary of "
        f"{vocabulary:,}",
        "Use a smaller batch_size or beam_size.",
        device,
    )

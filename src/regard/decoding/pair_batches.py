"""Batches of sentence pairs of similar length, for forced decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.backend import map_by_length

R = TypeVar("R")


def map_pairs_by_length(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    device: torch.device,
    batch_size: int | None,
    function: Callable[[Batch], list[R]],
) -> list[R]:
    """Like `map_by_length`, for pairs of ids; the function takes a `Batch`, with EOS appended."""

    def on_chunk(chunk: list[tuple[Sequence[int], Sequence[int]]]) -> list[R]:
        source, target = (with_eos(side) for side in zip(*chunk, strict=True))
        return function(Batch(source, target).to(device))

    return map_by_length(pairs, lambda pair: len(pair[0]) + len(pair[1]), batch_size, on_chunk)

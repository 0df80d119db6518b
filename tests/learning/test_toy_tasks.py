"""It learns: copy, reverse and sort, from a fresh random seed, on lines it has not seen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from regard.data.loader import with_ends
from regard.data.ragged import Batch
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import TrainingConfig
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

SYMBOLS = range(4, 16)
Task = Callable[[list[int]], list[int]]
TASKS: dict[str, Task] = {
    "copy": lambda line: line,
    "reverse": lambda line: line[::-1],
    "sort": sorted,
}


def lines(draw: random.Random, count: int) -> list[list[int]]:
    return [draw.choices(SYMBOLS, k=draw.randint(2, 8)) for _ in range(count)]


def learned(task: Task, seed: int) -> float:
    """The share of new lines that a model gets right after a minute at most."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shape = TransformerConfig(
        encoder_layers=2,
        decoder_layers=2,
        width=64,
        heads=4,
        feedforward_width=128,
        dropout=0.0,
        norm_order="pre",
    )
    config = TrainingConfig(
        max_steps=700, learning_rate=3e-3, warmup_steps=100, schedule="cosine", seed=seed
    )
    model = Transformer(shape, Vocabulary(16, 16))
    update = Updater(model.train(), make_optimizer(model, config), config)
    for step in range(1, config.max_steps + 1):
        sources = lines(draw, 64)
        batch = Batch(with_ends(sources), with_ends([*map(task, sources)]))
        rate = learning_rate(step, config, shape.width)
        update([batch], step=step, rate=rate)
    tests = lines(draw, 200)
    found = search(model.eval(), with_ends(tests), SearchConfig(beam_size=1))
    right = [h[0].tokens == task(line) for h, line in zip(found, tests, strict=True)]
    return sum(right) / len(right)


@pytest.mark.parametrize("task", TASKS)
def test_learns(task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    assert learned(TASKS[task], seed) >= 0.98, f"seed {seed}"

"""It learns: copy, reverse and sort, from a fresh random seed, on lines it has not seen."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from regard.config import Tree, build
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.search import search_with
from regard.models import ARCHITECTURES, new_model
from regard.models.protocol import Vocabulary
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

SYMBOLS = range(4, 16)
Task = Callable[[list[int]], list[int]]
TASKS: dict[str, Task] = {
    "copy": lambda line: line,
    "reverse": lambda line: line[::-1],
    "sort": sorted,
}


TRANSFORMER: Tree = {
    "kind": "transformer",
    "encoder_layers": 2,
    "decoder_layers": 2,
    "heads": 4,
    "feedforward_width": 128,
    "norm_order": "pre",
}
RECURRENT: Tree = {"kind": "recurrent", "layers": 1}
HARD = {"score": "additive", "select": "hard"}
BEFORE: dict[str, Tree] = {
    "LSTM": {**RECURRENT, "attention": {"score": "additive"}},
    "GRU, hard": {**RECURRENT, "cell": "gru", "attention": HARD},
    "Elman": {**RECURRENT, "cell": "elman", "attention": {"score": "bilinear"}},
    "LSTM without attention": {**RECURRENT, "memory": "none"},
    "convolutional": {"kind": "convolutional", "encoder_layers": 3, "decoder_layers": 2},
}
UNILM: Tree = {
    "kind": "unilm",
    "layers": 3,
    "heads": 4,
    "feedforward_width": 128,
    "norm_order": "pre",
    "positions": "rotary",
}


def lines(draw: random.Random, count: int, longest: int) -> list[list[int]]:
    return [draw.choices(SYMBOLS, k=draw.randint(2, longest)) for _ in range(count)]


def learned(task: Task, model: Tree, seed: int, *, steps: int, rate: float, longest: int) -> float:
    """The share of new lines that a model gets right after a minute at most."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shape = build(ARCHITECTURES[model["kind"]][0], {"width": 64, "dropout": 0.0, **model})
    config = TrainingConfig(
        max_steps=steps, learning_rate=rate, warmup_steps=steps // 7, schedule="cosine", seed=seed
    )
    learner = new_model(shape, Vocabulary(16, 16))
    update = Updater(learner.train(), make_optimizer(learner, config), Objective(config))
    for step in range(1, config.max_steps + 1):
        sources = lines(draw, 64, longest)
        batch = Batch(with_ends(sources), with_ends([*map(task, sources)]))
        update([batch], step=step, rate=learning_rate(step, config, shape.width))
    tests = lines(draw, 200, longest)
    found = search_with(learner.eval(), with_ends(tests), SearchConfig(beam_size=1))
    right = [h[0].tokens == task(line) for h, line in zip(found, tests, strict=True)]
    return sum(right) / len(right)


@pytest.mark.parametrize("task", TASKS)
def test_learns(task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    right = learned(TASKS[task], TRANSFORMER, seed, steps=700, rate=3e-3, longest=8)
    assert right >= 0.98, f"seed {seed}"


@pytest.mark.parametrize("task", ["reverse"])
def test_one_stack_learns_too(task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    right = learned(TASKS[task], UNILM, seed, steps=600, rate=3e-3, longest=8)
    assert right >= 0.95, f"seed {seed}"


@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize("form", BEFORE)
def test_what_was_before_the_transformer_learns_too(form: str, task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    longest = 4 if "without" in form else 8  # one vector holds so much
    right = learned(TASKS[task], BEFORE[form], seed, steps=450, rate=6e-3, longest=longest)
    assert right >= 0.9, f"seed {seed}"

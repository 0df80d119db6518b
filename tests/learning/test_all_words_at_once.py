"""Models that write all words at once learn to copy, and tasks in which lengths differ."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from regard.config import Tree, build
from regard.data.batch import FertilityBatch
from regard.data.pairs import joined, with_ends
from regard.decoding.config import SearchConfig
from regard.decoding.parallel import parallel_search
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.protocol import Vocabulary
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.training.config import TrainingConfig
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

SYMBOLS = range(4, 16)
SHAPE: Tree = {
    "width": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "heads": 4,
    "feedforward_width": 128,
    "norm_order": "pre",
    "dropout": 0.0,
    "max_fertility": 4,
}
# How often a symbol is written, one after another.
TASKS: dict[str, Callable[[int], int]] = {
    "copy": lambda symbol: 1,
    "grow and shrink": lambda symbol: symbol % 3,
}
FORMS: dict[str, tuple[Tree, Tree]] = {
    "fertilities": ({"lengths": "fertility"}, {}),
    "CTC, glancing": (
        {"lengths": "ctc", "copies": 3, "positional_attention": False},
        {"glancing": 0.5, "label_smoothing": 0.0, "max_steps": 700},
    ),
}


def lines(draw: random.Random, count: int) -> list[list[int]]:
    """Without a symbol twice in a row, which CTC would need a blank for."""
    found = []
    for _ in range(count):
        line = [draw.choice([symbol for symbol in SYMBOLS if symbol % 3])]  # it is written
        for _ in range(draw.randint(1, 7)):
            line.append(draw.choice([symbol for symbol in SYMBOLS if symbol != line[-1]]))
        found.append(line)
    return found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("form", FORMS)
def test_learns(form: str, task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    draw, (model, training) = random.Random(seed), FORMS[form]
    torch.manual_seed(seed)
    shape = build(NonAutoregressiveConfig, {**SHAPE, **model})
    tree = {"max_steps": 300, "learning_rate": 3e-3, "warmup_steps": 40, "schedule": "cosine"}
    config = build(TrainingConfig, {**tree, "seed": seed, **training})
    learner = NonAutoregressive(shape, Vocabulary(16, 16))
    objective = NonAutoregressiveObjective(learner, config)
    update = Updater(learner.train(), make_optimizer(learner, config), objective)

    def written(line: list[int]) -> list[int]:
        return [symbol for symbol in line for _ in range(TASKS[task](symbol))]

    for step in range(1, config.max_steps + 1):
        sources = lines(draw, 48)
        counts = joined([[TASKS[task](symbol) for symbol in line] for line in sources], last=0)
        targets = with_ends([*map(written, sources)])
        batch = FertilityBatch(with_ends(sources), targets, fertilities=counts)
        update([batch], step=step, rate=learning_rate(step, config, shape.width))
    tests = lines(draw, 200)
    found = parallel_search(learner.eval(), with_ends(tests), SearchConfig())
    right = [h[0].tokens == written(line) for h, line in zip(found, tests, strict=True)]
    assert sum(right) / len(right) >= 0.95, f"seed {seed}"

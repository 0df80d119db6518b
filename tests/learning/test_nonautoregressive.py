"""Non-autoregressive models learn to copy, and a task in which lengths differ."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from regard.config import Tree, build
from regard.data.batch import FertilityBatch
from regard.data.pairs import concatenate_rows, with_eos
from regard.decoding.config import SearchConfig
from regard.decoding.nonautoregressive import nonautoregressive_search
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.protocol import Vocabulary
from regard.tasks.nonautoregressive_translation import NonAutoregressiveObjective
from regard.training.config import TrainingConfig
from regard.training.optimizer import learning_rate, make_optimizer
from regard.training.step import Updater

SYMBOLS = range(4, 16)
SHAPE: Tree = {
    "d_model": 64,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "ffn_dim": 128,
    "norm_order": "pre",
    "dropout": 0.0,
    "max_fertility": 4,
}
# How often each symbol is repeated in the target.
TASKS: dict[str, Callable[[int], int]] = {
    "copy": lambda symbol: 1,
    "grow and shrink": lambda symbol: symbol % 3,
}
VARIANTS: dict[str, tuple[Tree, Tree]] = {
    "fertilities": ({"length_prediction": "fertility"}, {}),
    "CTC, glancing": (
        {"length_prediction": "ctc", "copies": 3, "positional_attention": False},
        {"glancing": 0.5, "label_smoothing": 0.0, "max_steps": 700},
    ),
}


def lines(draw: random.Random, count: int) -> list[list[int]]:
    """Lines without repeated symbols, which CTC would need blanks for."""
    result = []
    for _ in range(count):
        line = [draw.choice([symbol for symbol in SYMBOLS if symbol % 3])]  # not deleted
        for _ in range(draw.randint(1, 7)):
            line.append(draw.choice([symbol for symbol in SYMBOLS if symbol != line[-1]]))
        result.append(line)
    return result


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_learns(variant: str, task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    draw, (model, training) = random.Random(seed), VARIANTS[variant]
    torch.manual_seed(seed)
    shape = build(NonAutoregressiveConfig, {**SHAPE, **model})
    tree = {"max_steps": 300, "learning_rate": 3e-3, "warmup_steps": 40, "schedule": "cosine"}
    config = build(TrainingConfig, {**tree, "seed": seed, **training})
    trained_model = NonAutoregressive(shape, Vocabulary(16, 16))
    objective = NonAutoregressiveObjective(trained_model, config)
    update = Updater(trained_model.train(), make_optimizer(trained_model, config), objective)

    def target_of(line: list[int]) -> list[int]:
        return [symbol for symbol in line for _ in range(TASKS[task](symbol))]

    for step in range(1, config.max_steps + 1):
        sources = lines(draw, 48)
        counts = concatenate_rows(
            [[TASKS[task](symbol) for symbol in line] for line in sources], last=0
        )
        targets = with_eos([*map(target_of, sources)])
        batch = FertilityBatch(with_eos(sources), targets, fertilities=counts)
        update([batch], step=step, rate=learning_rate(step, config, shape.d_model))
    tests = lines(draw, 200)
    hypotheses = nonautoregressive_search(trained_model.eval(), with_eos(tests), SearchConfig())
    correct = [h[0].tokens == target_of(line) for h, line in zip(hypotheses, tests, strict=True)]
    assert sum(correct) / len(correct) >= 0.95, f"seed {seed}"

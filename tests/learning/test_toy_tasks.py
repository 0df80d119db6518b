"""Models learn to copy, reverse and sort, with a random seed and new test lines."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from regard.config import Tree, build
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.config import SearchConfig
from regard.decoding.search import decode_batch
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
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "ffn_dim": 128,
    "norm_order": "pre",
}
RECURRENT: Tree = {"kind": "recurrent", "num_layers": 1}
HARD = {"score": "additive", "select": "hard"}
EARLIER_MODELS: dict[str, Tree] = {
    "LSTM": {**RECURRENT, "attention": {"score": "additive"}},
    "GRU, hard": {**RECURRENT, "cell": "gru", "attention": HARD},
    "Elman": {**RECURRENT, "cell": "elman", "attention": {"score": "bilinear"}},
    "LSTM without attention": {**RECURRENT, "cross_attention": "none"},
    "convolutional": {"kind": "convolutional", "num_encoder_layers": 3, "num_decoder_layers": 2},
}
UNILM: Tree = {
    "kind": "unilm",
    "num_layers": 3,
    "num_heads": 4,
    "ffn_dim": 128,
    "norm_order": "pre",
    "positional_encoding": "rotary",
}


def lines(draw: random.Random, count: int, longest: int) -> list[list[int]]:
    return [draw.choices(SYMBOLS, k=draw.randint(2, longest)) for _ in range(count)]


def accuracy_after_training(
    task: Task, model: Tree, seed: int, *, steps: int, rate: float, longest: int
) -> float:
    """The accuracy on new lines after training."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    shape = build(ARCHITECTURES[model["kind"]][0], {"d_model": 64, "dropout": 0.0, **model})
    config = TrainingConfig(
        max_steps=steps, learning_rate=rate, warmup_steps=steps // 7, schedule="cosine", seed=seed
    )
    trained_model = new_model(shape, Vocabulary(16, 16))
    update = Updater(
        trained_model.train(), make_optimizer(trained_model, config), Objective(config)
    )
    for step in range(1, config.max_steps + 1):
        sources = lines(draw, 64, longest)
        batch = Batch(with_eos(sources), with_eos([*map(task, sources)]))
        update([batch], step=step, rate=learning_rate(step, config, shape.d_model))
    tests = lines(draw, 200, longest)
    hypotheses = decode_batch(trained_model.eval(), with_eos(tests), SearchConfig(beam_size=1))
    correct = [h[0].tokens == task(line) for h, line in zip(hypotheses, tests, strict=True)]
    return sum(correct) / len(correct)


@pytest.mark.parametrize("task", TASKS)
def test_learns(task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    correct = accuracy_after_training(
        TASKS[task], TRANSFORMER, seed, steps=700, rate=3e-3, longest=8
    )
    assert correct >= 0.98, f"seed {seed}"


@pytest.mark.parametrize("task", ["reverse"])
def test_unilm_learns(task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    correct = accuracy_after_training(TASKS[task], UNILM, seed, steps=600, rate=3e-3, longest=8)
    assert correct >= 0.95, f"seed {seed}"


@pytest.mark.parametrize("task", ["copy", "reverse"])
@pytest.mark.parametrize("variant", EARLIER_MODELS)
def test_recurrent_and_convolutional_models_learn(variant: str, task: str) -> None:
    seed = random.SystemRandom().randrange(2**31)
    longest = 4 if "without" in variant else 8  # one vector holds so much
    correct = accuracy_after_training(
        TASKS[task], EARLIER_MODELS[variant], seed, steps=450, rate=6e-3, longest=longest
    )
    assert correct >= 0.9, f"seed {seed}"

"""Search spaces: their files, errors, and the settings of trials."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.generated import ROOT
from regard.config import RenamedWarning, build
from regard.errors import ConfigError
from regard.settings_tree import merge_trees, nest_names, to_tree
from regard.tasks.recipes import build_run_config
from regard.training.config import RunConfig
from regard.tuning.space import Choices, Range, Space, read_space

BASE = build(RunConfig, {"out": "out"})
SPACES = sorted((ROOT / "recipes" / "spaces").glob("*.toml"))


def problems(tree: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_space(tree, BASE)
    return str(caught.value)


def sample(space: Space, seed: int) -> dict[str, Any]:
    """The settings of a trial."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    trial = study.ask()
    space.suggest(trial)
    return space.settings(trial.params)


def test_quoted_names_and_tables_mean_the_same(tmp_path: Path) -> None:
    path = tmp_path / "space.toml"
    path.write_text(
        '"training.learning_rate" = { low = 1e-4, high = 1e-2, log = true }\n'
        'training.optimizer = ["adam", "adamw"]\n'
        "[model]\nnum_heads = [2, 4]\n"
    )
    space = read_space(path, BASE)
    assert space.distributions == {
        "training.learning_rate": Range(1e-4, 1e-2, log=True, step=None, is_integer=False),
        "training.optimizer": Choices(("adam", "adamw")),
        "model.num_heads": Choices((2, 4)),
    }
    assert {*space.tree} == {*space.distributions}


@settings(max_examples=25)
@given(seed=st.integers(0, 2**31))
def test_sampled_settings_are_valid(seed: int) -> None:
    space = read_space(
        {
            "training.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
            "training.warmup_steps": {"low": 10, "high": 5000, "log": True},
            "model.num_encoder_layers": {"low": 2, "high": 6, "step": 2},
            "model.dropout": {"low": 0.1, "high": 0.5, "step": 0.1},
            "model.embedding_dropout": ["none", 0.3],
            "training.freeze": [[], ["encoder"]],
            "training.compile": [True, False],
        },
        BASE,
    )
    sampled = sample(space, seed)
    assert {*sampled} == {*space.distributions}
    config = build(RunConfig, merge_trees(to_tree(BASE), nest_names(sampled)))
    assert config.training.learning_rate is not None
    assert 1e-4 <= config.training.learning_rate <= 1e-2
    assert 10 <= config.training.warmup_steps <= 5000
    assert to_tree(config)["model"]["num_encoder_layers"] in (2, 4, 6)
    assert to_tree(config)["model"]["dropout"] in (0.1, 0.2, 0.3, 0.4, 0.5)  # without 0.30000000004
    assert config.training.freeze in ((), ("encoder",))


def test_all_problems_are_reported() -> None:
    text = problems(
        {
            "training.lr": [1, 2],
            "training.learning_rate": {"low": 1, "high": 0.1},
            "training.label_smoothing": {"low": 0.1, "high": 1.5},
            "training.warmup_steps": {"low": 10.5, "high": 20, "step": 3},
            "training.weight_decay": {"low": 0, "high": 1, "log": True},
            "training.ema_decay": {"low": 0.1, "high": 0.5, "log": True, "step": 0.1},
            "training.max_steps": [3],
            "training.patience": 3,
            "training.optimizer": {"low": 1, "high": 2},
            "training.max_grad_norm": {"low": float("nan"), "high": 2},
            "model": {"dropout": {"low": 0.1, "stp": 0.1}, "num_heads": [2, 0, "x"]},
            "data.corpus_weights": {"low": 1, "high": 2},
        }
    )
    for problem in (
        "training.lr does not exist; did you mean training.learning_rate?",
        "training.learning_rate.low is 1.0, but must be less than high (0.1)",
        "training.label_smoothing.high is 1.5, but must be at most 0.99",
        "training.warmup_steps.low is 10.5, but must be an integer",
        "training.warmup_steps.step is 3.0, but high - low must be a multiple of it",
        "training.weight_decay.low is 0.0, but must be above 0 with log = true",
        "training.ema_decay.step cannot be combined with log = true; leave out one of them",
        "training.max_steps must be a list of two or more different values",
        "training.patience is 3, but must be a list of values or a table with low and high",
        "training.optimizer has no range of numbers (adam | adamw); give a list of values",
        "training.max_grad_norm.low is nan, but must be finite",
        "model.dropout.stp does not exist; did you mean model.dropout.step?",
        "model.num_heads is 0, but must be at least 1",
        'model.num_heads is "x", but must be integer',
        "data.corpus_weights has no range of numbers",
    ):
        assert problem in text
    assert "space is not a valid search space, " in text


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("data.folder", "it changes the prepared data; run one search for each prepared folder"),
        ("vocab_size", "an option of `regard prepare`, and all trials share the prepared data"),
        ("data.max_tokens", "an option of `regard prepare`"),
        ("out", "each trial has a run folder of its own"),
        ("init_from", "run one search for each base model"),
        ("model.kind", "run one search for each kind"),
        ("training.best_metric", "use --metric"),
        ("tracking.project", "no effect on the model"),
    ],
)
def test_settings_that_cannot_be_tuned(name: str, reason: str) -> None:
    text = problems({name: ["a", "b"]})
    assert f"{name} cannot be tuned: " in text
    assert reason in text


def test_empty_space() -> None:
    assert 'it is empty; add a line such as "model.dropout" = [0.1, 0.3]' in problems({})
    assert "it is empty" in problems({"model": {}})


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"The search space .*missing\.toml does not exist"):
        read_space(tmp_path / "missing.toml", BASE)
    (tmp_path / "space.toml").write_text("a = \n")
    with pytest.raises(ConfigError, match=r"space\.toml is not valid TOML"):
        read_space(tmp_path / "space.toml", BASE)


def test_former_names() -> None:
    with pytest.warns(RenamedWarning, match=r"model\.width is now model\.d_model"):
        space = read_space({"model.width": [64, 128]}, BASE)
    assert [*space.distributions] == ["model.d_model"]


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.name)
def test_example_spaces(path: Path) -> None:
    """They are for presets and recipes that their first line names."""
    first, *_ = path.read_text(encoding="utf-8").splitlines()
    words = first.split()
    preset = words[words.index("--preset") + 1] if "--preset" in words else None
    recipes = [
        ROOT / word for word in words if word.startswith("recipes/") and "/spaces/" not in word
    ]
    recipe = recipes[0] if recipes else None
    base = build_run_config(recipe, preset=preset, changes={"out": "out"}, assignments=[])
    space = read_space(path, base)
    assert len(space.distributions) == len(tomllib.loads(path.read_text(encoding="utf-8")))
    for seed in range(20):
        sampled = sample(space, seed)
        build(RunConfig, merge_trees(to_tree(base), nest_names(sampled)))


def test_there_are_example_spaces() -> None:
    assert len(SPACES) >= 2

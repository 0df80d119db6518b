"""`regard compare`: layer types, and models of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_errors import assert_error
from cli.test_kinds import KINDS, small
from regard.data.store import Store

__all__ = ["regard"]  # a fixture

SMALL = [
    "--d-model",
    "8",
    "--num-heads",
    "2",
    "--layer-batch-size",
    "2",
    "--rounds",
    "1",
    "--lengths",
    "4,8",
]


def test_layer_costs_as_table_and_picture(tmp_path: Path, regard: Command) -> None:
    picture = tmp_path / "layers.png"
    result = regard("compare", *SMALL, "--out", picture)
    assert result.status == 0, result.err
    rows = [line.split() for line in result.out.splitlines()[1:7]]
    assert [row[:2] for row in rows[:3]] == [
        ["4", "self-attention"],
        ["4", "recurrence"],
        ["4", "convolution"],
    ]
    assert rows[0][2] == f"{2 * 4 * 4 * 8 + 4 * 4 * 8 * 8:,}"
    assert rows[1][3:5] == ["4", "4"]
    assert "activations stored for the backward pass" in result.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_lengths_beyond_max_seconds_are_skipped(regard: Command) -> None:
    result = regard("compare", *SMALL, "--max-seconds", "0")
    assert result.status == 0, result.err
    assert result.out.count("over 0 s") == 3
    document = json.loads(regard("compare", *SMALL, "--max-seconds", "0", "--format", "json").out)
    points = document["results"]
    assert [point["forward"] is None for point in points] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--lengths", "4,many"], "must be integers below a million"),
        (["--lengths", "0"], "must be integers below a million"),
        (["--num-heads", "3"], "must be divisible by --num-heads (3)"),
        (["--kernel-size", "2"], "must be odd"),
        (["--precision", "int8"], "must be float32 or bfloat16"),
        (["--format", "xml"], "must be text, json or jsonl"),
        (["somewhere"], "Use --source and --reference"),
        (["--source", "text", "--reference", "text"], "no effect without models"),
        (["--gradients", "2"], "no effect without models"),
    ],
)
def test_user_errors(arguments: list[str], message: str, regard: Command) -> None:
    assert_error(regard("compare", *arguments), message)


@pytest.fixture
def text(tmp_path: Path) -> list[str | Path]:
    """A test set of letters and the same backwards."""
    lines = ["a b c", "d e f g", "h", "i j", "b d f h", "c a"] * 2
    (tmp_path / "source").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "reference").write_text("".join(line[::-1] + "\n" for line in lines))
    return ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]


def test_models_of_every_kind(
    tmp_path: Path, reversal_store: Store, text: list[str | Path], regard: Command
) -> None:
    runs = [tmp_path / name for name in KINDS]
    for run in runs:
        result = regard("train", "--data", reversal_store.folder, "--out", run, *small(run.name))
        assert result.status == 0, result.err
    (runs[1] / "metrics.jsonl").unlink()  # as of a folder that was copied without it
    few = ["--rounds", "1", "--latency-sentences", "2", "--batch-size", "4", "--gradients", "3"]
    result = regard("compare", *runs, *text, *few, "--picture", tmp_path / "models.png")
    assert result.status == 0, result.err
    for part in (*map(str, runs), "BLEU by length", "Gradient norm at the first source token"):
        assert part in result.out
    assert (tmp_path / "models.png").read_bytes().startswith(b"\x89PNG")

    document = json.loads(regard("compare", *runs, *text, *few, "--format", "json").out)
    first, second, third, *others = document["results"]
    kinds = ["recurrent", "recurrent", "convolutional", "unilm", "nonautoregressive"]
    assert [model["kind"] for model in document["results"]] == kinds
    assert first["training"]["steps"] == 12
    assert first["training"]["tokens_per_second"] > 0
    assert second["training"] is None
    for model in document["results"]:
        assert model["parameters"] > 1000
        assert min(model["speed"].values()) > 0
        assert sum(group["sentences"] for group in model["quality"]["by_length"]) == 12
    assert all(model["reach"] is None for model in others)
    for model in (first, second, third):
        assert len(model["reach"]["before"]) == len(model["reach"]["after"]) > 1
        assert model["reach"]["before"] != model["reach"]["after"]
    evaluated = json.loads(regard("evaluate", runs[0], *text, "--format", "json").out)
    assert first["quality"]["bleu"] == evaluated["results"][0]["metrics"][0]["value"]


def test_bad_model_is_reported_first(
    tmp_path: Path, text: list[str | Path], regard: Command
) -> None:
    assert_error(regard("compare", tmp_path / "nothing", *text), "nothing")

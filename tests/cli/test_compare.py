"""`regard compare`: layers without models, and models of every kind side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_errors import assert_told
from cli.test_kinds import KINDS, small
from regard.data.store import Store

__all__ = ["regard"]  # a fixture

SMALL = ["--width", "8", "--heads", "2", "--batch", "2", "--rounds", "1", "--lengths", "4,8"]


def test_layers_in_a_table_and_a_picture(tmp_path: Path, regard: Command) -> None:
    picture = tmp_path / "layers.png"
    done = regard("compare", *SMALL, "--out", picture)
    assert done.status == 0, done.err
    rows = [line.split() for line in done.out.splitlines()[1:7]]
    assert [row[:2] for row in rows[:3]] == [
        ["4", "self-attention"],
        ["4", "recurrence"],
        ["4", "convolution"],
    ]
    assert rows[0][2] == f"{2 * 4 * 4 * 8 + 4 * 4 * 8 * 8:,}"
    assert rows[1][3:5] == ["4", "4"]
    assert "what forward keeps for backward" in done.out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_length_that_takes_too_long_is_shown_as_such(regard: Command) -> None:
    done = regard("compare", *SMALL, "--seconds", "0")
    assert done.status == 0, done.err
    assert done.out.count("over 0 s") == 3
    told = json.loads(regard("compare", *SMALL, "--seconds", "0", "--format", "json").out)
    points = told["results"]
    assert [point["forward"] is None for point in points] == [False] * 3 + [True] * 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lengths", "4,many"], "Write numbers and commas"),
        (["--lengths", "0"], "Write numbers and commas"),
        (["--heads", "3"], "3 heads do not divide"),
        (["--kernel", "2"], "has no middle"),
        (["--precision", "int8"], "Use float32 or bfloat16"),
        (["--format", "xml"], "Use text, json or jsonl"),
        (["somewhere"], "Give --source and --reference"),
        (["--source", "text", "--reference", "text"], "for models. Name some"),
        (["--gradients", "2"], "for models. Name some"),
    ],
)
def test_what_cannot_be_compared_is_told(words: list[str], said: str, regard: Command) -> None:
    assert_told(regard("compare", *words), said)


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
        done = regard("train", "--data", reversal_store.folder, "--out", run, *small(run.name))
        assert done.status == 0, done.err
    (runs[1] / "metrics.jsonl").unlink()  # as of a folder that was copied without it
    few = ["--rounds", "1", "--one-by-one", "2", "--batch-size", "4", "--gradients", "3"]
    done = regard("compare", *runs, *text, *few, "--picture", tmp_path / "models.png")
    assert done.status == 0, done.err
    for part in (*map(str, runs), "BLEU by length", "reaches the first source word"):
        assert part in done.out
    assert (tmp_path / "models.png").read_bytes().startswith(b"\x89PNG")

    found = json.loads(regard("compare", *runs, *text, *few, "--format", "json").out)
    first, second, third, *others = found["results"]
    kinds = ["recurrent", "recurrent", "convolutional", "unilm", "nonautoregressive"]
    assert [model["kind"] for model in found["results"]] == kinds
    assert first["training"]["steps"] == 12
    assert first["training"]["tokens_per_second"] > 0
    assert second["training"] is None
    for model in found["results"]:
        assert model["parameters"] > 1000
        assert min(model["speed"].values()) > 0
        assert sum(group["sentences"] for group in model["quality"]["by_length"]) == 12
    assert all(model["reach"] is None for model in others)
    for model in (first, second, third):
        assert len(model["reach"]["before"]) == len(model["reach"]["after"]) > 1
        assert model["reach"]["before"] != model["reach"]["after"]
    evaluated = json.loads(regard("evaluate", runs[0], *text, "--format", "json").out)
    assert first["quality"]["bleu"] == evaluated["results"][0]["metrics"][0]["value"]


def test_a_bad_model_is_told_first(tmp_path: Path, text: list[str | Path], regard: Command) -> None:
    assert_told(regard("compare", tmp_path / "nothing", *text), "nothing")

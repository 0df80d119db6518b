"""docs/reference/json.md documents the JSON output of all commands."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from docs.generated import DOCS
from labelled import write_labelled_store, write_tagged_store
from regard.cache import add_entry
from regard.data.calibration import (
    BINS,
    CALIBRATION,
    Calibration,
    CalibrationCurve,
    CurvePair,
    PlattScaling,
    weights_digest,
)
from regard.data.store import Store
from toys import write_model_folder, write_text_store
from tuning.searches import WORKER

__all__ = ["regard"]  # a fixture

PAGE = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## ([a-z ]+)\n.*?^```json\n(.*?)^```", PAGE, re.M | re.S))
TEXT = "a b c\nd e\n"
SPACE = '"training.learning_rate" = { low = 1e-4, high = 1e-2, log = true }'
TIMED = {"compare layers", "compare models"}  # which no two runs print alike


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A folder with untrained models of all tasks, and a text."""
    place = tmp_path_factory.mktemp("json")
    for name in ("tagged", "labelled"):
        (place / name).mkdir()
    stores = {
        "transformer": reversal_store,
        "nonautoregressive": reversal_store,
        "causal": (text := write_text_store(place)),
        "masked": text,
        "tagger": write_tagged_store(place / "tagged"),
        "classifier": write_labelled_store(place / "labelled"),
    }
    for kind, store in stores.items():
        write_model_folder(place / kind, store, kind=kind)
    (place / "pairs").symlink_to(reversal_store.folder)
    (place / "text").write_text(TEXT)
    (place / "lines").write_text("".join(f"a b c d {name}\n" for name in "abcdefghij" * 12))
    example = {"source": "a", "correct": "b", "wrong": ["c"], "category": "x"}
    (place / "contrastive").write_text(json.dumps(example) + "\n")
    (place / "tags").write_text("the\tO\nrun\tB-thing\n")
    (place / "space.toml").write_text(SPACE)
    return place


@pytest.fixture
def simulated_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tuning.tuner.WORKER", WORKER)


def pair(world: Path) -> list[str | Path]:
    return ["--source", world / "text", "--target", world / "text"]


Words = list[str | Path]


def calibrated(world: Path) -> Path:
    folder, empty = world / "transformer", (0.0,) * BINS
    curve = CalibrationCurve((0,) * BINS, empty, empty, 0.0)
    curves = CurvePair(curve, curve)
    digest = weights_digest(folder)
    Calibration(1, digest, PlattScaling(), curves, curves, 1.2, curves).write(folder / CALIBRATION)
    return folder


def list_cache() -> Words:
    add_entry("kind", "key", lambda folder: None)
    return ["cache"]


COMMANDS: dict[str, Callable[[Path], Words]] = {
    "translate": lambda w: ["translate", w / "transformer", "--num-hypotheses", "2"],
    "translate with confidence": lambda w: [
        *("translate", w / "transformer", "--num-hypotheses", "2", "--confidence"),
    ],
    "translate with files": lambda w: [
        *("translate", w / "transformer", "--num-hypotheses", "2", "--overwrite"),
        *("--file", w / "lines", "--file-format", "txt", "--out", w / "translated"),
    ],
    "generate": lambda w: ["generate", w / "causal", "a b", "--max-tokens", "3"],
    "fill": lambda w: ["fill", w / "masked", "a [MASK] b", "--top-k", "2"],
    "tag": lambda w: ["tag", w / "tagger", "the run"],
    "classify": lambda w: ["classify", w / "classifier", "a good film"],
    "embed": lambda w: ["embed", w / "masked"],
    "score": lambda w: ["score", w / "transformer", *pair(w)],
    "evaluate translations": lambda w: [
        *("evaluate", w / "transformer", "--source", w / "text", "--reference", w / "text"),
        *("--against", w / "text", "--resamples", "100", "--by-length", "--worst", "1"),
    ],
    "evaluate contrastive": lambda w: [
        *("evaluate", w / "transformer", "--contrastive", w / "contrastive"),
    ],
    "evaluate text": lambda w: ["evaluate", w / "causal", "--text", w / "text"],
    "evaluate labels": lambda w: [
        *("evaluate", w / "tagger", "--tagged", w / "tags", "--worst", "1"),
    ],
    "calibrate": lambda w: [
        *("calibrate", w / "transformer", "--overwrite"),
        *("--source", w / "lines", "--reference", w / "lines"),
    ],
    "align": lambda w: ["align", *pair(w)],
    "filter": lambda w: ["filter", *pair(w), "--no-skip-copied", "--keep-alignment", "0.5"],
    "compare models": lambda w: [
        *("compare", w / "transformer", "--source", w / "text", "--reference", w / "text"),
        *("--rounds", "1", "--latency-sentences", "1", "--gradients", "1"),
    ],
    "compare layers": lambda _: ["compare", "--lengths", "4", "--d-model", "8", "--rounds", "1"],
    "tune": lambda w: [
        *("tune", "--data", w / "pairs", "--space", w / "space.toml", "--out", w / "search"),
        *("--device", "cpu", "--trials", "1", "--set", "training.max_steps=1000"),
    ],
    "shortlist": lambda w: ["shortlist", w / "transformer", "--data", w / "pairs", "--overwrite"],
    "cache": lambda _: list_cache(),
    "show positions": lambda _: ["show", "positions", "--length", "2", "--d-model", "2"],
    "show mask": lambda _: ["show", "mask", "causal", "--length", "2"],
    "show scores": lambda _: ["show", "scores", "4"],
    "show schedule": lambda _: ["show", "schedule", "--preset", "tiny"],
    "show attention": lambda w: ["show", "attention", w / "transformer", "a b"],
    "show fertilities": lambda w: ["show", "fertilities", w / "nonautoregressive", "a b"],
    "show calibration": lambda w: ["show", "calibration", calibrated(w)],
    "show model": lambda w: ["show", "model", w / "transformer"],
    "show settings": lambda _: ["show", "settings", "model.num_heads"],
}


def shape(value: Any) -> Any:
    """Names and types, of the first item of a list alone."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value[:1]]
    return "number" if isinstance(value, int | float) else type(value).__name__


def without_free_names(row: dict[str, Any]) -> dict[str, Any]:
    """Without the objects whose names are labels, parts or settings, and without warnings."""
    row = row | {name: [] for name in ("warnings",) if name in row}
    free = "probabilities", "parts", "settings", "categories"
    row = row | {name: {} for name in free if name in row}
    return row | {name: row[name] | {"each": {}} for name in ("each", "spans") if name in row}


def test_every_command_is_documented() -> None:
    assert {*EXAMPLES} == {*COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("simulated_trials")
def test_page_shows_the_printed_fields(name: str, world: Path, regard: Command) -> None:
    arguments = COMMANDS[name](world)
    result = regard(*arguments, "--format", "jsonl", stdin=TEXT)
    assert result.status == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert rows
    assert all(next(iter(row)) == "schema" for row in rows)
    example = json.loads(EXAMPLES[name])
    assert shape(without_free_names(example)) == shape(without_free_names(rows[0]))
    assert [*example] == [*rows[0]]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.usefixtures("simulated_trials")
def test_json_document_has_the_same_results(name: str, world: Path, regard: Command) -> None:
    arguments = COMMANDS[name](world)
    document = json.loads(regard(*arguments, "--format", "json", stdin=TEXT).out)
    more = ["summary"] if name.startswith("evaluate") else []
    more = ["best", "importances"] if name == "tune" else more
    assert [*document] == ["schema", "command", "results", *more]
    assert document["schema"] == 1
    assert document["command"] in (name, name.split()[0])
    if name not in TIMED:
        lines = regard(*arguments, "--format", "jsonl", stdin=TEXT).out.splitlines()
        assert [{"schema": 1, **row} for row in document["results"]] == [*map(json.loads, lines)]

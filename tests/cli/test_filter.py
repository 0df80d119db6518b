"""`regard filter`: filtered files, reports, scores, and options that need others."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_pipeline import run, texts
from data.corpora import write_pairs

__all__ = ["regard", "run", "texts"]  # fixtures

PAIRS = [
    *((f"The house is {n * 'very '}old.", f"Das Haus ist {n * 'sehr '}alt.") for n in range(40)),
    ("The dog runs along the beach.", "Le chien court le long de la plage."),
    ("a dog", "a dog"),
    ("", ""),
]


@pytest.fixture
def text(tmp_path: Path) -> list[str | Path]:
    """The options for 43 pairs, of which the last three are unsuitable."""
    files = write_pairs(tmp_path, "text", PAIRS)
    return ["--source", files.source, "--target", files.target]


def outputs(folder: Path) -> list[str | Path]:
    return ["--out-source", folder / "out.en", "--out-target", folder / "out.de"]


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_pairs_that_pass_are_written(
    text: list[str | Path], tmp_path: Path, regard: Command
) -> None:
    result = regard("filter", *text, "--target-lang", "de", *outputs(tmp_path))
    assert result.status == 0, result.err
    assert result.out == ""
    written = [*zip(read(tmp_path / "out.en"), read(tmp_path / "out.de"), strict=True)]
    assert written == PAIRS[:40]
    lines = [line.split() for line in result.err.splitlines()]
    assert ["pairs", "read", "43"] in lines
    assert ["target", "is", "not", "in", "de:", "skipped", "1", "line", "41"] in lines
    assert ["pairs", "kept", "40"] in lines
    assert "target is not in de: skipped, line 41: The dog runs along" in result.err
    assert f"Wrote 40 pairs to {tmp_path / 'out.en'}" in result.err


def test_report_in_json(text: list[str | Path], regard: Command) -> None:
    result = regard("filter", *text, "--alignment", "--min-alignment", "-50", "--format", "json")
    [report] = json.loads(result.out)["results"]
    assert (report["pairs"], report["kept"]) == (43, 41)
    copied, empty = report["issues"]
    assert copied == {
        "issue": "target is a copy of the source: skipped",
        "count": 1,
        "first_line": 42,
        "examples": [{"line": 42, "source": "a dog", "target": "a dog"}],
    }
    assert (empty["issue"], empty["count"], empty["first_line"]) == ("empty: skipped", 1, 43)
    [scores] = report["scores"]
    assert scores["name"] == "alignment"
    values = [*scores["percentiles"].values()]
    assert values == sorted(values)
    assert [*scores["percentiles"]] == ["1", "5", "10", "25", "50", "90"]


def test_scores_are_computed_once(text: list[str | Path], tmp_path: Path, regard: Command) -> None:
    scores = tmp_path / "scores.tsv"
    limits = ["--keep-alignment", "0.8", "--format", "json"]
    computed = regard("filter", *text, *limits, "--write-scores", scores, *outputs(tmp_path))
    assert computed.status == 0, computed.err
    before = read(tmp_path / "out.en")
    assert len(before) == 33  # of 41 pairs that pass the rules
    assert len(read(scores)) == 42
    again = regard("filter", *text, *limits, "--read-scores", scores, *outputs(tmp_path))
    assert "exists already" in again.err
    again = regard(
        *["filter", *text, *limits, "--read-scores", scores, *outputs(tmp_path), "--overwrite"]
    )
    assert again.status == 0, again.err
    assert read(tmp_path / "out.en") == before
    issues = [json.loads(outcome.out)["results"][0]["issues"] for outcome in (computed, again)]
    assert issues[0] == issues[1]


@pytest.fixture
def reverse_run(run: Path, tmp_path: Path) -> Path:
    """The model folder of the run as a model of the opposite direction."""
    folder = tmp_path / "reverse"
    shutil.copytree(run, folder)
    config = json.loads((folder / "config.json").read_text())
    config["languages"] = {"source": "y", "target": "x"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_pairs_are_scored_by_models(
    run: Path, reverse_run: Path, texts: Path, tmp_path: Path, regard: Command
) -> None:
    text = ["--source", texts / "test.x", "--target", texts / "test.y"]
    scores, device = tmp_path / "scores.tsv", ["--device", "cpu"]
    models = ["--forward-model", run, "--reverse-model", reverse_run]
    result = regard(
        *["filter", *text, "--no-skip-copied", *models, *device, "--min-dual", "0.3"],
        *["--write-scores", scores, *outputs(tmp_path)],
    )
    assert result.status == 0, result.err
    header, *rows = (line.split("\t") for line in read(scores))
    assert header == ["line", "checksum", "forward", "reverse", "dual"]
    swapped = ["--source", texts / "test.y", "--target", texts / "test.x"]
    for column, model, sides in ((2, run, text), (3, reverse_run, swapped)):
        printed = regard("score", model, *sides, *device).out.split()
        assert [-float(row[column]) for row in rows] == pytest.approx(
            [*map(float, printed)], abs=1e-4
        )
    for _, _, *values, dual in rows:
        forward, reverse = map(float, values)
        expected = math.exp(-abs(forward - reverse) - (forward + reverse) / 2)
        assert float(dual) == pytest.approx(expected, rel=1e-3)
    kept = [
        line for line, row in zip(read(texts / "test.x"), rows, strict=True) if float(row[4]) >= 0.3
    ]
    assert read(tmp_path / "out.en") == kept


def test_models_of_the_same_direction_are_refused(
    run: Path, text: list[str | Path], regard: Command
) -> None:
    models = ["--forward-model", run, "--reverse-model", run]
    result = regard("filter", *text, *models, "--device", "cpu")
    assert "which is not the opposite direction" in result.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out-source", "a"], "--out-source and --out-target must be given together."),
        (["--forward-model", "m"], "--forward-model and --reverse-model must be given together."),
        (["--min-lang-prob", "0.2"], "--min-lang-prob: no effect without --source-lang or --targ"),
        (["--min-dual", "0.2"], "--min-dual and --keep-dual require --forward-model and --rever"),
        (["--device", "cpu"], "--device: no effect without --forward-model and --reverse-model."),
        (["--write-scores", "s"], "--write-scores: there are no scores. Use --alignment"),
        (["--read-scores", "s", "--alignment"], "--alignment: no effect with --read-scores"),
        (["--keep-alignment", "1.5"], "--keep-alignment is 1.5, but must be at most 1"),
        (["--source-lang", "xx"], "The language 'xx' cannot be identified."),
        (["--overwrite"], "--overwrite: no effect without --out-source or --out-target or --wri"),
        (["--read-scores", "none.tsv"], "There is no file none.tsv"),
    ],
)
def test_options_that_need_others(
    options: list[str], message: str, text: list[str | Path], regard: Command
) -> None:
    result = regard("filter", *text, *options)
    assert result.status != 0
    assert message in result.err


def test_missing_columns_are_named(text: list[str | Path], tmp_path: Path, regard: Command) -> None:
    scores = tmp_path / "scores.tsv"
    assert regard("filter", *text, "--alignment", "--write-scores", scores).status == 0
    result = regard("filter", *text, "--read-scores", scores, "--keep-dual", "0.5")
    assert f"{scores} has no column 'dual'." in result.err


def test_inputs_are_not_overwritten(text: list[str | Path], regard: Command) -> None:
    result = regard(
        *["filter", *text, "--out-source", text[1], "--out-target", text[3], "--overwrite"]
    )
    assert "which is an input of this command" in result.err

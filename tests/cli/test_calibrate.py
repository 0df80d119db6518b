"""`regard calibrate`, `regard show calibration`, and `regard translate --confidence`."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import regard as library
from cli.commands import Command, regard
from cli.test_pipeline import run, texts
from regard.data.calibration import CALIBRATION, read_calibration
from regard.text.words import word_spans

__all__ = ["regard", "run", "texts"]  # fixtures


def lines(output: str) -> list[Any]:
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture
def calibrated(run: Path, texts: Path, regard: Command) -> Path:
    """A copy of the run with a calibration, made once."""
    out = texts / "calibrated"
    if not out.exists():
        shutil.copytree(run, out)
        draw = random.Random(5)
        sources = [" ".join(draw.choices("abcdefghij", k=draw.randint(2, 6))) for _ in range(60)]
        (texts / "valid.x").write_text("".join(f"{line}\n" for line in sources))
        (texts / "valid.y").write_text("".join(f"{line[::-1]}\n" for line in sources))
        result = regard("calibrate", out, *validation(texts), "--format", "jsonl")
        assert result.status == 0, result.err
        assert f"Wrote {out / CALIBRATION}" in result.err
        (texts / "rows").write_text(result.out)
    return out


def validation(texts: Path) -> list[str | Path]:
    return ["--source", texts / "valid.x", "--reference", texts / "valid.y"]


def test_calibration_reduces_the_error_of_words(calibrated: Path, texts: Path) -> None:
    tokens, words, sentences = lines((texts / "rows").read_text())
    assert [row["level"] for row in (tokens, words, sentences)] == ["tokens", "words", "sentences"]
    assert words["ece"]["after"] < words["ece"]["before"]
    for row in (tokens, words):
        assert row["nll"]["after"] <= row["nll"]["before"]
        assert sum(row["curves"]["after"]["counts"]) == row["count"] > 100
    assert sentences["count"] == 60
    calibration = read_calibration(calibrated)
    assert calibration is not None
    assert calibration.word_scaling.temperature == words["temperature"]


def test_calibration_is_shown(
    calibrated: Path, run: Path, texts: Path, tmp_path: Path, regard: Command
) -> None:
    plot = regard("show", "calibration", calibrated, "--format", "jsonl")
    assert plot.out == (texts / "rows").read_text()
    text = regard("show", "calibration", calibrated).out
    assert "ECE before" in text
    assert "Accuracy of words by confidence" in text
    picture = tmp_path / "curves.png"
    assert regard("show", "calibration", calibrated, "--picture", picture).status == 0
    assert picture.stat().st_size > 10_000
    missing = regard("show", "calibration", run)
    assert missing.status == 2
    assert "has no calibration.json" in missing.err


def test_json_has_words_with_confidences(calibrated: Path, regard: Command) -> None:
    options = ["--format", "jsonl", "--num-hypotheses", "2", "--min-confidence", "0.999"]
    result = regard("translate", calibrated, *options, stdin="a b c\n\nd e\n")
    assert result.status == 0, result.err
    first, empty, last = lines(result.out)
    for row in (first, *first["alternatives"], last):
        spans = [(word["start"], word["end"]) for word in row["words"]]
        assert spans == word_spans(row["text"])
        assert [row["text"][start:end] for start, end in spans] == [
            word["text"] for word in row["words"]
        ]
        confidences = [word["confidence"] for word in row["words"]]
        assert row["confidence"] == pytest.approx(sum(confidences) / len(confidences))
    assert first["review"]
    assert last["review"]
    assert (empty["confidence"], empty["words"], empty["review"]) == (None, [], False)
    assert "Line 1 has a translation with confidence" in result.err
    assert "Line 2" not in result.err
    assert "not calibrated" not in result.err
    plain = lines(regard("translate", calibrated, *options[:4], stdin="a b c\n\nd e\n").out)
    for row, with_words in zip(plain, (first, empty, last), strict=True):
        assert row == {name: with_words[name] for name in row} | {
            "alternatives": [
                {name: other[name] for name in ("text", "score")}
                for other in with_words["alternatives"]
            ]
        }


def test_text_has_a_column(calibrated: Path, run: Path, regard: Command) -> None:
    plain = regard("translate", run, stdin="a b c\n\nd e\n").out.splitlines()
    result = regard("translate", run, "--confidence", "--scores", stdin="a b c\n\nd e\n")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[3] for row in rows] == plain
    assert rows[1][2] == ""
    assert 0 < float(rows[0][2]) < 1
    assert f"{run} has no calibration.json" in result.err
    scaled = regard("translate", calibrated, "--confidence", stdin="a b c\n").out.split("\t")
    assert float(scaled[0]) != float(rows[0][2])


def test_python_and_backends_agree(calibrated: Path) -> None:
    translators = [library.load(calibrated, backend=name) for name in ("torch", "ctranslate2")]
    sources = ["a b c", "f g h i j", "a. b! c"]
    results = [each.translate(sources, min_confidence=0.5) for each in translators]
    for ours, other in zip(*results, strict=True):
        assert ours.text == other.text
        assert ours.confidence == pytest.approx(other.confidence, abs=1e-4)
        assert ours.words is not None
        assert other.words is not None
        for word, other_word in zip(ours.words, other.words, strict=True):
            assert word.confidence == pytest.approx(other_word.confidence, abs=1e-4)
        assert ours.review == (ours.confidence is not None and ours.confidence < 0.5)
    assert translators[0].translate(sources)[0].words is None


def test_export_keeps_the_calibration(
    calibrated: Path, texts: Path, tmp_path: Path, regard: Command
) -> None:
    out = tmp_path / "exported"
    assert regard("export", calibrated, "--to", "ctranslate2", "--out", out).status == 0
    outputs = [
        regard("translate", folder, "--confidence", stdin="a b c\n") for folder in (calibrated, out)
    ]
    assert outputs[0].out == outputs[1].out
    again = regard("calibrate", out, *validation(texts), "--overwrite", "--format", "jsonl")
    assert "exports have no logits" in again.err
    words, sentences = lines(again.out)
    expected = lines((texts / "rows").read_text())[1:]
    for row, original in zip((words, sentences), expected, strict=True):
        assert row["ece"]["after"] == pytest.approx(original["ece"]["after"], abs=1e-3)


def test_an_ensemble_has_a_file_of_its_own(
    calibrated: Path, run: Path, texts: Path, tmp_path: Path, regard: Command
) -> None:
    models, file = [run, calibrated], tmp_path / "ensemble.json"
    refused = regard("calibrate", *models, *validation(texts))
    assert refused.status == 2
    assert "Use --out with the file to write" in refused.err
    result = regard("calibrate", *models, *validation(texts), "--out", file, "--format", "jsonl")
    assert result.status == 0, result.err
    assert "ensembles average probabilities and have no logits" in result.err
    words, _ = lines(result.out)
    assert words["ece"]["after"] < words["ece"]["before"]
    assert regard("show", "calibration", file, "--format", "jsonl").out == result.out
    options = ["--confidence", "--calibration", file]
    outputs = [
        regard("translate", *folders, *options, stdin="a b\n") for folders in (models, models[::-1])
    ]
    assert outputs[0].out == outputs[1].out
    assert all("not calibrated" not in output.err for output in outputs)
    other = regard("translate", run, *options, stdin="a b\n")
    assert other.status != 0
    assert f"{file} belongs to other weights than those in {run}" in other.err
    plain = regard("translate", *models, "--confidence", stdin="a b\n")
    assert "--calibration reads the file" in plain.err
    assert plain.out != outputs[0].out
    unused = regard("translate", *models, *options[1:], stdin="a b\n")
    assert "calibration (--calibration) has no effect without confidence" in unused.err


def test_errors(calibrated: Path, run: Path, texts: Path, tmp_path: Path, regard: Command) -> None:
    again = regard("calibrate", calibrated, *validation(texts))
    assert again.status == 2
    assert "--overwrite" in again.err
    few = ["--source", texts / "test.x", "--reference", texts / "test.y"]
    (tmp_path / "few.x").write_text("a b\n")
    few = ["--source", tmp_path / "few.x", "--reference", tmp_path / "few.x"]
    result = regard("calibrate", run, *few)
    assert "too few for calibration. Give at least 100" in result.err
    stale = tmp_path / "stale"
    shutil.copytree(run, stale)
    tree = json.loads((calibrated / CALIBRATION).read_text())
    (stale / CALIBRATION).write_text(json.dumps(tree | {"weights": "0" * 64}))
    result = regard("translate", stale, "--confidence", stdin="a\n")
    assert result.status != 0
    assert "belongs to other weights" in result.err
    assert regard("translate", stale, stdin="a\n").status == 0

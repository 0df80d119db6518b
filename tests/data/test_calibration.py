"""The file `calibration.json`: its maps, and the weights that it belongs to."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.calibration import (
    BINS,
    CALIBRATION,
    Calibration,
    CalibrationCurve,
    CurvePair,
    PlattScaling,
    read_calibration,
    read_calibration_file,
    weights_digest,
)
from regard.data.store import Store
from regard.errors import ModelError, StorageError
from toys import write_model_folder

EMPTY = CalibrationCurve((0,) * BINS, (0.0,) * BINS, (0.0,) * BINS, 0.0)


def some_calibration(folder: Path) -> Calibration:
    pair = CurvePair(EMPTY, EMPTY)
    scaling = PlattScaling(1.5, 0.25)
    return Calibration(1, weights_digest(folder), scaling, pair, pair, 1.2, pair)


@given(st.floats(0.001, 0.999), st.floats(0.1, 10), st.floats(-3, 3))
def test_platt_scaling_is_a_line_in_log_odds(p: float, temperature: float, bias: float) -> None:
    scaled = PlattScaling(temperature, bias)(p)
    expected = 1 / (1 + (p / (1 - p)) ** (-1 / temperature) * math.exp(-bias))
    assert scaled == pytest.approx(expected)
    assert PlattScaling()(p) == pytest.approx(p)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 100), st.floats(-100, 100))
def test_platt_scaling_is_monotone(p: float, q: float, temperature: float, bias: float) -> None:
    scaling = PlattScaling(temperature, bias)
    low, high = scaling(min(p, q)), scaling(max(p, q))
    assert 0 <= low <= high <= 1


def test_expected_calibration_error() -> None:
    counts, confidence, accuracy = [0] * BINS, [0.0] * BINS, [0.0] * BINS
    counts[2], confidence[2], accuracy[2] = 30, 0.25, 0.35
    counts[9], confidence[9], accuracy[9] = 10, 0.95, 0.75
    curve = CalibrationCurve(tuple(counts), tuple(confidence), tuple(accuracy), 0.5)
    assert curve.ece == pytest.approx(0.75 * 0.1 + 0.25 * 0.2)
    assert EMPTY.ece == 0


def test_calibration_belongs_to_its_weights(tmp_path: Path, reversal_store: Store) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    assert read_calibration(folder) is None
    calibration = some_calibration(folder)
    calibration.write(folder / CALIBRATION)
    assert read_calibration(folder) == calibration
    write_model_folder(folder, reversal_store, ffn_dim=64)
    with pytest.raises(ModelError, match=r"belongs to other weights than those in .*calibrate"):
        read_calibration(folder)
    calibration.for_weights_of(folder).write(folder / CALIBRATION)
    assert read_calibration(folder) is not None


def test_a_file_belongs_to_an_ensemble(tmp_path: Path, reversal_store: Store) -> None:
    folders = [
        write_model_folder(tmp_path / f"{size}", reversal_store, ffn_dim=size) for size in (32, 64)
    ]
    digest = weights_digest(*folders)
    assert digest == weights_digest(*reversed(folders))
    assert digest not in map(weights_digest, folders)
    calibration = replace(some_calibration(folders[0]), weights=digest)
    path = tmp_path / "ensemble.json"
    calibration.write(path)
    assert read_calibration_file(path, folders) == read_calibration_file(path) == calibration
    with pytest.raises(ModelError, match=r"other weights than .*calibrate .*--out .*ensemble.json"):
        read_calibration_file(path, folders[:1])
    with pytest.raises(StorageError, match=r"missing\.json"):
        read_calibration_file(tmp_path / "missing.json", folders)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("format", 2, "has format 2"),
        ("word_scaling", {"temperature": 0, "bias": 0}, "word_scaling.temperature"),
        ("token_temperature", 1000, "token_temperature"),
        ("words", {}, "words.before"),
        ("unknown", 1, "unknown"),
    ],
)
def test_damaged_files(
    field: str, value: object, problem: str, tmp_path: Path, reversal_store: Store
) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    some_calibration(folder).write(folder / CALIBRATION)
    tree = json.loads((folder / CALIBRATION).read_text())
    (folder / CALIBRATION).write_text(json.dumps(tree | {field: value}))
    with pytest.raises(ModelError, match=f"(?s){problem}.*Run `regard calibrate"):
        read_calibration(folder)


def test_curve_with_missing_bins(tmp_path: Path, reversal_store: Store) -> None:
    folder = write_model_folder(tmp_path / "model", reversal_store)
    some_calibration(folder).write(folder / CALIBRATION)
    tree = json.loads((folder / CALIBRATION).read_text())
    tree["words"]["after"]["counts"].pop()
    (folder / CALIBRATION).write_text(json.dumps(tree))
    with pytest.raises(ModelError, match="must have 10 numbers each"):
        read_calibration(folder)

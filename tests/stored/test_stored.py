"""Folders written by an earlier version load, and give the outputs of that version."""

from __future__ import annotations

import json
import math
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from stored import outputs

__all__ = ["regard"]  # a fixture

pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")
HOME = Path(__file__).parent
EXPECTED: dict[str, Any] = json.loads((HOME / "expected.json").read_text())
# Parameters with the biases of keys. Their gradients are rounding errors, which Adam turns into
# steps of the size of the learning rate, so they differ between processors.
KEY_BIASES = "attention.project.bias", "cross.memory.bias"


@pytest.fixture(autouse=True)
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a copy of the folders."""
    for name in ("models", "recipes", "runs", "stores", "texts"):
        shutil.copytree(HOME / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run_regard(regard: Command) -> outputs.Regard:
    """Return the standard output of a command, which must succeed."""

    def call(*words: str, stdin: str = "") -> str:
        result = regard(*words, stdin=stdin)
        assert result.status == 0, result.err
        return result.out

    return call


def assert_same(actual: Any, expected: Any, *, tolerance: float = 1e-4, where: str = "") -> None:
    """Compare trees: floats up to a tolerance, everything else exactly."""
    if isinstance(expected, dict):
        assert sorted(actual) == sorted(expected), where
        for name in expected:
            assert_same(actual[name], expected[name], tolerance=tolerance, where=f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), where
        for number, pair in enumerate(zip(actual, expected, strict=True)):
            assert_same(*pair, tolerance=tolerance, where=f"{where}[{number}]")
    elif isinstance(expected, float):
        close = math.isclose(actual, expected, rel_tol=tolerance, abs_tol=tolerance)
        assert close, f"{where}: {actual}, not {expected}"
    else:
        assert actual == expected, where


@pytest.mark.parametrize("kind", outputs.KINDS)
def test_models_of_each_kind(run_regard: outputs.Regard, kind: str) -> None:
    assert_same(outputs.model_outputs(run_regard, kind), EXPECTED["models"][kind])


@pytest.mark.parametrize("name", outputs.RUNS)
def test_runs_resume(run_regard: outputs.Regard, name: str) -> None:
    actual, expected = outputs.run_outputs(run_regard, name), deepcopy(EXPECTED["runs"][name])
    assert_same(actual.pop("published"), expected["published"])
    for part in expected.keys() - {"published"}:
        weights, resumed = actual[part], expected[part]
        if isinstance(resumed, dict):
            for parameter in [*resumed]:
                if parameter.endswith(KEY_BIASES):
                    assert_same(weights.pop(parameter), resumed.pop(parameter), tolerance=0.02)
        assert_same(weights, resumed, tolerance=1e-5, where=part)


def test_an_adapter_is_merged_with_its_base_model(run_regard: outputs.Regard) -> None:
    assert_same(outputs.merged_outputs(run_regard), EXPECTED["merged"]["adapter"])


def test_a_shortlist_is_exported(run_regard: outputs.Regard) -> None:
    pytest.importorskip("ctranslate2")
    assert outputs.exported_shortlist(run_regard) == EXPECTED["shortlist"]["transformer"]


@pytest.mark.parametrize("name", outputs.STORES)
def test_stores_of_each_content(name: str) -> None:
    assert_same(outputs.store_outputs(name), EXPECTED["stores"][name])


@pytest.mark.parametrize("name", outputs.READERS)
def test_batches_of_a_store(name: str) -> None:
    assert_same(outputs.batch_outputs(name), EXPECTED["batches"][name])

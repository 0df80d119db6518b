"""Folders that an earlier version wrote load, and say what that version said."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from stored import outputs

__all__ = ["regard"]  # a fixture

HOME = Path(__file__).parent
EXPECTED: dict[str, Any] = json.loads((HOME / "expected.json").read_text())


@pytest.fixture(autouse=True)
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a copy of the folders."""
    for name in ("models", "recipes", "runs", "stores", "texts"):
        shutil.copytree(HOME / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def say(regard: Command) -> outputs.Regard:
    """What a command that succeeds prints."""

    def call(*words: str, stdin: str = "") -> str:
        done = regard(*words, stdin=stdin)
        assert done.status == 0, done.err
        return done.out

    return call


def assert_same(found: Any, expected: Any, *, tolerance: float = 1e-4, where: str = "") -> None:
    """Compare trees: floats up to a tolerance, everything else exactly."""
    if isinstance(expected, dict):
        assert sorted(found) == sorted(expected), where
        for name in expected:
            assert_same(found[name], expected[name], tolerance=tolerance, where=f"{where}.{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for number, pair in enumerate(zip(found, expected, strict=True)):
            assert_same(*pair, tolerance=tolerance, where=f"{where}[{number}]")
    elif isinstance(expected, float):
        close = math.isclose(found, expected, rel_tol=tolerance, abs_tol=tolerance)
        assert close, f"{where}: {found}, not {expected}"
    else:
        assert found == expected, where


@pytest.mark.parametrize("kind", outputs.KINDS)
def test_a_model_of_each_kind(say: outputs.Regard, kind: str) -> None:
    assert_same(outputs.model_outputs(say, kind), EXPECTED["models"][kind])


@pytest.mark.parametrize("name", outputs.RUNS)
def test_a_run_is_resumed(say: outputs.Regard, name: str) -> None:
    found, expected = outputs.run_outputs(say, name), EXPECTED["runs"][name]
    assert_same(found.pop("published"), expected["published"])
    resumed = {part: value for part, value in expected.items() if part != "published"}
    assert_same(found, resumed, tolerance=1e-5)


def test_an_adapter_is_merged_with_its_origin(say: outputs.Regard) -> None:
    assert_same(outputs.merged_outputs(say), EXPECTED["merged"]["adapter"])


def test_a_shortlist_is_exported(say: outputs.Regard) -> None:
    pytest.importorskip("ctranslate2")
    assert outputs.exported_shortlist(say) == EXPECTED["shortlist"]["transformer"]


@pytest.mark.parametrize("name", outputs.STORES)
def test_a_store_of_each_content(name: str) -> None:
    assert_same(outputs.store_outputs(name), EXPECTED["stores"][name])


@pytest.mark.parametrize("name", outputs.READERS)
def test_batches_of_a_store(name: str) -> None:
    assert_same(outputs.batch_outputs(name), EXPECTED["batches"][name])

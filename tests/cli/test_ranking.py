"""The commands rank candidates: by minimum Bayes risk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.data.store import Store
from toys import write_model_folder

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A model folder, without training."""
    return write_model_folder(tmp_path_factory.mktemp("model"), reversal_store)


def test_mbr(model: Path, regard: Command, tmp_path: Path) -> None:
    mbr = ["--mbr", "chrf", "--mbr-samples", "8", "--epsilon-cutoff", "0.02"]
    line = "a b c\n"
    translated = regard("translate", model, *mbr, "--format", "jsonl", stdin=line)
    row = json.loads(translated.out)
    assert row["score_type"] == "expected_utility"
    assert 0 < row["score"] <= 100
    plain = regard("translate", model, "--format", "jsonl", stdin=line)
    assert json.loads(plain.out)["score_type"] == "log_prob"
    (tmp_path / "source").write_text(line)
    (tmp_path / "reference").write_text("c b a\n")
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]
    evaluated = regard("evaluate", model, *files, *mbr, "--out", tmp_path / "out")
    assert evaluated.status == 0, evaluated.err
    assert (tmp_path / "out").read_text() == row["text"] + "\n"

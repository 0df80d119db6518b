"""The commands rank candidates: by minimum Bayes risk, or by other models."""

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
    many = regard("translate", model, *mbr, "--num-hypotheses", "7", stdin=line)  # above beam_size
    assert (many.status, len(many.out.splitlines())) == (0, 7), many.err
    plain = regard("translate", model, "--format", "jsonl", stdin=line)
    assert json.loads(plain.out)["score_type"] == "log_prob"
    (tmp_path / "source").write_text(line)
    (tmp_path / "reference").write_text("c b a\n")
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]
    evaluated = regard("evaluate", model, *files, *mbr, "--out", tmp_path / "out")
    assert evaluated.status == 0, evaluated.err
    assert (tmp_path / "out").read_text() == row["text"] + "\n"


def test_rerank(model: Path, regard: Command, tmp_path: Path) -> None:
    (tmp_path / "source").write_text("a b c\nd e\nf g h i\n")
    (tmp_path / "reference").write_text("c b a\ne d\ni h g f\n")
    files = ["--source", tmp_path / "source", "--reference", tmp_path / "reference"]
    rerank = ["--rerank", model, "--rerank", model]
    out = ["--out", tmp_path / "out", "--format", "json"]
    tuned = regard("evaluate", model, *files, *rerank, "--tune-rerank", *out)
    assert tuned.status == 0, tuned.err
    [row] = json.loads(tuned.out)["results"]
    assert len(row["rerank_weights"]) == 2
    assert "The weights with the highest BLEU are --rerank-weight" in tuned.err
    weights = [word for value in row["rerank_weights"] for word in ("--rerank-weight", str(value))]
    source = (tmp_path / "source").read_text()
    translated = regard("translate", model, *rerank, *weights, stdin=source)
    assert translated.out == (tmp_path / "out").read_text()
    json_row = regard("translate", model, *rerank, "--format", "jsonl", stdin="a\n").out
    assert json.loads(json_row)["score_type"] == "reranking_score"
    evaluated = regard("evaluate", model, *files, *rerank, *weights, "--format", "json")
    assert json.loads(evaluated.out)["results"][0]["metrics"] == row["metrics"]
    assert json.loads(evaluated.out)["results"][0]["rerank_weights"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "chooses the weights of the models of --rerank"),
        (["--rerank", "m", "--rerank-weight", "1"], "without --rerank-weight"),
        (["model", "--rerank", "m"], "Give one model"),
    ],
)
def test_tuning_requires_rerankers(
    model: Path, regard: Command, tmp_path: Path, options: list[str], message: str
) -> None:
    (tmp_path / "file").write_text("a b\n")
    files = ["--source", tmp_path / "file", "--reference", tmp_path / "file"]
    result = regard("evaluate", model, *options, *files, "--tune-rerank")
    assert result.status == 2
    assert message in result.err

"""Back-translation with the command: backward model, synthetic data, forward model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, Outcome, regard
from cli.test_pipeline import SMALL, settings, texts
from regard.data.store import Store

__all__ = ["regard", "texts"]  # fixtures

WORDS = ["--tokenizer", "word", "--vocab-size", "300"]


def assert_success(outcome: Outcome) -> Outcome:
    assert outcome.status == 0, outcome.err
    return outcome


@pytest.fixture
def monolingual(texts: Path) -> Path:
    """Target text without a source: the letters of the training text in other lines."""
    path = texts / "mono.y"
    lines = (texts / "train.y").read_text().splitlines()
    joined = [f"{a} {b}" for a, b in zip(lines[:60], lines[60:120], strict=True)]
    path.write_text("".join(line + "\n" for line in joined))
    return path


@pytest.fixture
def backward(texts: Path, regard: Command) -> Path:
    """A model from target to source, made once."""
    out = texts / "backward"
    if not (out / "model.safetensors").exists():
        files = ["--source", texts / "train.y", "--target", texts / "train.x"]
        assert_success(regard("prepare", *files, *WORDS, "--out", texts / "yx"))
        assert_success(regard("train", "--data", texts / "yx", "--out", out, *settings(*SMALL)))
    return out


@pytest.mark.parametrize("search", [["--beam-size", "2"], ["--sample", "--seed", "3"]])
def test_back_translation_pipeline(
    texts: Path, monolingual: Path, backward: Path, search: list[str], regard: Command
) -> None:
    translated = assert_success(
        regard("translate", backward, *search, stdin=monolingual.read_bytes())
    )
    (texts / "bt.x").write_text(translated.out)
    data, run = texts / f"xy{search[0]}", texts / f"forward{search[0]}"
    prepared = assert_success(
        regard(
            *["prepare", "--source", texts / "train.x", "--target", texts / "train.y"],
            *["--source", texts / "bt.x", "--target", monolingual, "--tag", "", "--tag", "<bt>"],
            *["--valid-source", texts / "test.x", "--valid-target", texts / "test.y"],
            *["--max-ratio", "0", *WORDS, "--out", data],
        )
    )
    assert "bt.x" in prepared.err
    genuine, synthetic = Store(data).part("train").corpora
    assert (genuine.tag, synthetic.tag) == ("", "<bt>")
    assert len(genuine) > 200
    assert 30 < len(synthetic) <= 60
    mixed = settings(*SMALL, "data.corpus_weights=[1,0.5]")
    assert_success(regard("train", "--data", data, "--out", run, *mixed))
    assert json.loads((run / "run.json").read_text())["settings"]["data"]["corpus_weights"] == [
        1,
        0.5,
    ]
    for text in ("a b c\n", "<bt> a b c\n"):
        assert assert_success(regard("translate", run, stdin=text)).out.count("\n") == 1
    assert "└ ▁<bt>" in regard("show", "attention", run, "<bt> a b").out


def test_tokenizer_is_reused_from_a_model_or_prepared_folder(
    texts: Path, backward: Path, regard: Command
) -> None:
    files = ["--source", texts / "test.y", "--target", texts / "test.x"]
    wanted = Store(texts / "yx").tokenizers
    for number, folder in enumerate((backward, texts / "yx")):
        out = texts / f"taken{number}"
        prepared = assert_success(
            regard("prepare", *files, "--tokenizer-from", folder, "--out", out)
        )
        assert "vocabulary has" not in prepared.err
        store = Store(out)
        assert store.tokenizers.files() == wanted.files()
        lines = (texts / "test.y").read_text().splitlines()
        ids = [wanted.source.encode(line) for line in lines]
        assert store.part("train").source[0].tolist() in ids


def test_tag_without_a_token_is_reported(texts: Path, backward: Path, regard: Command) -> None:
    files = ["--source", texts / "test.y", "--target", texts / "test.x", "--tag", "<bt>"]
    prepared = regard("prepare", *files, "--tokenizer-from", backward, "--out", texts / "spelled")
    assert "has no token <bt>" in assert_success(prepared).err
    again = ["--tokenizer-from", texts / "spelled", "--out", texts / "spelled again"]
    assert "has no token <bt>" in assert_success(regard("prepare", *files, *again)).err

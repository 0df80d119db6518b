"""Language models by the command: prepared, trained, asked and measured; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from toys import write_reversal_store, write_text_store

__all__ = ["regard"]  # a fixture

FEW = ["training.max_steps=12", "training.checkpoint_every=6", "training.tensorboard=false"]
TINY = ["model.layers=1", "model.width=16", "model.heads=2", "model.feedforward_width=24"]
SHORT = ["model.max_positions=16", "data.batch_tokens=200"]
SETTINGS = [word for one in (*FEW, *TINY, *SHORT) for word in ("--set", one)]


@pytest.fixture
def prepared(tmp_path: Path, regard: Command) -> Path:
    write_text_store(tmp_path)  # for its files
    texts = "--text", tmp_path / "train.txt", "--valid-text", tmp_path / "valid.txt"
    kind = "--tokenizer", "word", "--vocab-size", "300"
    done = regard("prepare", *texts, *kind, "--source-lang", "xx", "--out", tmp_path / "text")
    assert done.status == 0, done.err
    assert "documents" in done.err
    return tmp_path / "text"


def test_gpt_goes_the_whole_way(prepared: Path, tmp_path: Path, regard: Command) -> None:
    run = tmp_path / "run"
    words = "train", "--preset", "gpt-tiny", "--data", prepared, "--out", run, *SETTINGS
    done = regard(*words)
    assert done.status == 0, done.err
    assert "perplexity" in done.err
    assert "regard generate" in done.err
    again = regard(*words)
    assert "finished" in again.err
    # What the exporter refuses is said before training, and once.
    out = "--to", "huggingface", "--out", tmp_path / "theirs"
    assert "model.positions is rotary; it knows learned" in regard("export", run, *out).err
    assert "model.positions is rotary; it knows learned" in done.err
    assert "huggingface" not in again.err

    drawn = regard("generate", run, "a b", "c", "--max-tokens", "5")
    assert drawn.out.startswith("a b")
    assert "no longer than" not in drawn.err
    assert regard("generate", run, "a b", "c", "--max-tokens", "5").out == drawn.out
    many = regard("generate", run, "a b", "c", "--max-tokens", "50000")
    assert many.err.count("no longer than the 16 tokens") == 1
    streamed = [
        regard("generate", run, one, "--max-tokens", "5", "--stream") for one in ("a b", "c")
    ]
    assert "".join(one.out for one in streamed) == drawn.out
    searched = regard(
        *("generate", run, "--beam-size", "3", "--count", "2", "--format", "jsonl"),
        stdin="a\nb c\n",
    )
    rows = [json.loads(line) for line in searched.out.splitlines()]
    assert [row["prompt"] for row in rows] == ["a", "b c"]
    assert all(len(row["continuations"]) == 2 for row in rows)
    both = regard("generate", run, "a", "--stream", "--count", "2")
    assert both.status == 2

    text = "--text", tmp_path / "valid.txt"
    told = regard("evaluate", run, *text, "--stride", "4", "--format", "json")
    (row,) = json.loads(told.out)["results"]
    assert 1 < row["perplexity"] < row["per_word"]
    assert row["window"] == 16
    assert "bits per byte" in regard("evaluate", run, *text).out
    assert regard("evaluate", run, *text, "--stride", "17").status == 2

    for refused in (
        ("translate", run),
        ("fill", run, "a [MASK]"),
        ("export", run, "--to", "ctranslate2", "--out", tmp_path / "out"),
        ("export", run, "--to", "onnx", "--out", tmp_path / "out"),
        ("show", "attention", run, "a b", "--part", "cross"),
        ("show", "attention", run, " "),
    ):
        found = regard(*refused, stdin="a\n")
        assert found.status == 2, refused
        assert "Traceback" not in found.err
        assert found.err.startswith(("regard:", "Engine")), found.err
    assert regard("average", run, "--last", "2", "--out", tmp_path / "mean").status == 0
    assert regard("generate", tmp_path / "mean", "a").status == 0
    assert "causal" in regard("show", "model", run).out
    assert "</s>" in regard("show", "attention", run, "a b").out


def test_bert_goes_the_whole_way(prepared: Path, tmp_path: Path, regard: Command) -> None:
    run = tmp_path / "run"
    more = "--set", "model.next_sentence=true", "--set", "model.segments=2"
    whole = "--set", "data.masking.whole_words=true"
    words = "train", "--preset", "bert-tiny", "--data", prepared, "--out", run
    done = regard(*words, *SETTINGS, *more, *whole)
    assert done.status == 0, done.err
    assert "<s>" in regard("show", "attention", run, "a b").out
    found = regard("fill", run, "a [MASK] c", "--top-k", "3", "--format", "json")
    (row,) = json.loads(found.out)["results"]
    assert len(row["blanks"]) == 1
    assert len(row["blanks"][0]) == 3
    assert "probability" in regard("fill", run, stdin="[MASK] b\n").out
    assert "\n\\n " in regard("fill", run, "a [MASK] b", "--top-k", "400").out
    done = regard("fill", run, "a b")
    assert (done.status, done.out) == (2, "a b\n")
    done = regard("fill", run, "--format", "jsonl", stdin="a b\na [MASK] b\n")
    assert done.status == 0
    assert [len(json.loads(line)["blanks"]) for line in done.out.splitlines()] == [0, 1]
    assert "Line 1 has no blank" in done.err
    assert regard("generate", run, "a b").status == 2
    told = regard("evaluate", run, "--text", tmp_path / "valid.txt", "--format", "json")
    assert json.loads(told.out)["results"][0]["perplexity"] > 1


def test_text_and_pairs_are_told_apart(prepared: Path, tmp_path: Path, regard: Command) -> None:
    found = regard("train", "--preset", "tiny", "--data", prepared, "--out", tmp_path / "run")
    assert found.status == 2
    assert "running text" in found.err
    (tmp_path / "pairs").mkdir()
    pairs = write_reversal_store(tmp_path / "pairs", valid=False).folder
    found = regard("train", "--preset", "gpt-tiny", "--data", pairs, "--out", tmp_path / "run")
    assert "--text" in found.err
    text = "--text", tmp_path / "train.txt"
    found = regard("prepare", *text, "--max-ratio", "3", "--out", tmp_path / "out")
    assert "--max-ratio" in found.err
    assert regard("prepare", "--out", tmp_path / "out").status == 2
    assert regard("evaluate", prepared).status == 2

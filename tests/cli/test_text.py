"""Language models with the command: prepare, train, generate, fill, evaluate, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.commands import Command, regard
from toys import write_reversal_store, write_text_store

__all__ = ["regard"]  # a fixture

FEW = ["training.max_steps=12", "training.checkpoint_every=6", "training.tensorboard=false"]
TINY = ["model.num_layers=1", "model.d_model=16", "model.num_heads=2", "model.ffn_dim=24"]
SHORT = ["model.max_positions=16", "data.batch_tokens=200"]
SETTINGS = [argument for assignment in (*FEW, *TINY, *SHORT) for argument in ("--set", assignment)]


@pytest.fixture
def prepared(tmp_path: Path, regard: Command) -> Path:
    write_text_store(tmp_path)  # for its files
    texts = "--text", tmp_path / "train.txt", "--valid-text", tmp_path / "valid.txt"
    kind = "--tokenizer", "word", "--vocab-size", "300"
    result = regard("prepare", *texts, *kind, "--source-lang", "xx", "--out", tmp_path / "text")
    assert result.status == 0, result.err
    assert "documents" in result.err
    return tmp_path / "text"


def test_gpt_pipeline(prepared: Path, tmp_path: Path, regard: Command) -> None:
    run = tmp_path / "run"
    arguments = "train", "--preset", "gpt-tiny", "--data", prepared, "--out", run, *SETTINGS
    result = regard(*arguments)
    assert result.status == 0, result.err
    assert "perplexity" in result.err
    assert "regard generate" in result.err
    again = regard(*arguments)
    assert "finished" in again.err
    # What the exporter refuses is said before training, and once.
    out = "--to", "huggingface", "--out", tmp_path / "theirs"
    assert (
        "model.positional_encoding is rotary; supported: learned" in regard("export", run, *out).err
    )
    assert "model.positional_encoding is rotary; supported: learned" in result.err
    assert "huggingface" not in again.err

    sampled = regard("generate", run, "a b", "c", "--max-tokens", "5")
    assert sampled.out.startswith("a b")
    assert "maximum length" not in sampled.err
    assert regard("generate", run, "a b", "c", "--max-tokens", "5").out == sampled.out
    many = regard("generate", run, "a b", "c", "--max-tokens", "50000")
    assert many.err.count("maximum length of this model is 16 tokens") == 1
    streamed = [
        regard("generate", run, prompt, "--max-tokens", "5", "--stream") for prompt in ("a b", "c")
    ]
    assert "".join(result.out for result in streamed) == sampled.out
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
    evaluated = regard("evaluate", run, *text, "--stride", "4", "--format", "json")
    (row,) = json.loads(evaluated.out)["results"]
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
        result = regard(*refused, stdin="a\n")
        assert result.status == 2, refused
        assert "Traceback" not in result.err
        assert result.err.startswith(("regard:", "Backend")), result.err
    assert regard("average", run, "--last", "2", "--out", tmp_path / "mean").status == 0
    assert regard("generate", tmp_path / "mean", "a").status == 0
    assert "causal" in regard("show", "model", run).out
    assert "</s>" in regard("show", "attention", run, "a b").out


def test_bert_pipeline(prepared: Path, tmp_path: Path, regard: Command) -> None:
    run = tmp_path / "run"
    more = "--set", "model.next_sentence=true", "--set", "model.num_segments=2"
    whole = "--set", "data.masking.whole_words=true"
    arguments = "train", "--preset", "bert-tiny", "--data", prepared, "--out", run
    result = regard(*arguments, *SETTINGS, *more, *whole)
    assert result.status == 0, result.err
    assert "<s>" in regard("show", "attention", run, "a b").out
    result = regard("fill", run, "a [MASK] c", "--top-k", "3", "--format", "json")
    (row,) = json.loads(result.out)["results"]
    assert len(row["blanks"]) == 1
    assert len(row["blanks"][0]) == 3
    assert "probability" in regard("fill", run, stdin="[MASK] b\n").out
    assert "\n\\n " in regard("fill", run, "a [MASK] b", "--top-k", "400").out
    result = regard("fill", run, "a b")
    assert (result.status, result.out) == (2, "a b\n")
    result = regard("fill", run, "--format", "jsonl", stdin="a b\na [MASK] b\n")
    assert result.status == 0
    assert [len(json.loads(line)["blanks"]) for line in result.out.splitlines()] == [0, 1]
    assert "Line 1 has no [MASK]" in result.err
    assert regard("generate", run, "a b").status == 2
    evaluated = regard("evaluate", run, "--text", tmp_path / "valid.txt", "--format", "json")
    assert json.loads(evaluated.out)["results"][0]["perplexity"] > 1


def test_text_and_pairs_are_distinguished(prepared: Path, tmp_path: Path, regard: Command) -> None:
    result = regard("train", "--preset", "tiny", "--data", prepared, "--out", tmp_path / "run")
    assert result.status == 2
    assert "plain text" in result.err
    (tmp_path / "pairs").mkdir()
    pairs = write_reversal_store(tmp_path / "pairs", valid=False).folder
    result = regard("train", "--preset", "gpt-tiny", "--data", pairs, "--out", tmp_path / "run")
    assert "--text" in result.err
    text = "--text", tmp_path / "train.txt"
    result = regard("prepare", *text, "--max-ratio", "3", "--out", tmp_path / "out")
    assert "--max-ratio" in result.err
    assert regard("prepare", "--out", tmp_path / "out").status == 2
    assert regard("evaluate", prepared).status == 2

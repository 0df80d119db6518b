"""Labels on the command line: prepare, train, tag, classify, evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from cli.test_errors import assert_told
from labelled import columns, opinions, tagged_sentences

__all__ = ["regard"]  # a fixture

SMALL = [
    *("--set", "model.width=32", "--set", "model.heads=2", "--set", "training.tensorboard=false"),
    *("--set", "training.warmup_steps=10", "--set", "training.checkpoint_every=60"),
    *("--set", "training.max_steps=120", "--set", "model.dropout=0.1"),
]
CONLLU = (
    "# text = the run\n1-2\ttherun\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "1\tthe\tthe\tX\t_\t_\t_\t_\t_\t_\n2\trun\trun\tX\t_\t_\t_\t_\t_\t_\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    for name, count in (("train", 300), ("valid", 40)):
        sentences = tagged_sentences(count, seed=count)
        (folder / f"{name}.tags").write_text(columns(sentences))
        rows = ["label\ttext", *map("\t".join, opinions(count, seed=count))]
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def evaluated(regard: Command, *words: str | Path) -> list[dict[str, Any]]:
    """The results of `regard evaluate`."""
    results: list[dict[str, Any]]
    results = json.loads(regard("evaluate", *words, "--format", "json").out)["results"]
    return results


def test_words(folder: Path, regard: Command) -> None:
    files = ["--tagged", folder / "train.tags", "--valid-tagged", folder / "valid.tags"]
    data, out, test = folder / "tagged", folder / "tagger", folder / "valid.tags"
    done = regard("prepare", *files, "--vocab-size", "320", "--out", data)
    assert "examples kept" in done.err
    assert "--preset tagger-tiny" in done.err
    done = regard("train", "--preset", "tagger-tiny", "--data", data, "--out", out, *SMALL)
    assert "accuracy" in done.err
    assert f"regard tag {out}" in done.err
    assert regard("tag", out, "the run may").out == "the\tO\nrun\tB-thing\nmay\tO\n\n"
    assert regard("tag", out, stdin="the run\nmay smith\n").out.split("\n\n")[:2] == [
        "the\tO\nrun\tB-thing",
        "may\tB-name\nsmith\tI-name",
    ]
    found = regard("tag", out, stdin=CONLLU + "\n" + CONLLU).out
    wanted = CONLLU.replace("the\tX", "the\tO").replace("run\tX", "run\tB-thing")
    assert found == f"{wanted}\n{wanted}\n"
    words = regard("tag", out, "--input", "columns", stdin="the\nrun\n\nmay\n").out
    assert words.startswith("the\tO\nrun\tB-thing\n\nmay\t")
    row = json.loads(regard("tag", out, "--json", "the run").out)
    assert row["labels"] == ["O", "B-thing"]
    assert len(row["probabilities"]) == 2
    picture = folder / "confusion.png"
    told = regard("evaluate", out, "--tagged", test, "--worst", "3", "--picture", picture).out
    assert "span F1" in told
    assert picture.stat().st_size > 1000
    (report,) = evaluated(regard, out, "--tagged", test)
    assert report["accuracy"] >= 0.95
    assert report["labels"] == sum(map(len, tagged_sentences(40, seed=40)))
    assert sum(map(sum, report["confusion"])) == report["labels"]
    assert report["spans"]["overall"]["f1"] >= 0.9
    both = regard("evaluate", out, out, "--tagged", test).out
    assert "spread" in both
    assert_told(regard("tag", out, stdin="a\tO\nb\n"), "line 2", "1 columns")
    assert_told(regard("tag", out, "--input", "tsv", stdin="a"), "Use text, columns or auto")
    assert_told(regard("classify", out, "text"), "model kind 'tagger'", "classifier-tiny")
    assert_told(regard("evaluate", "--tagged", test), "Give a model folder")
    assert_told(regard("evaluate", out, "--text", test), "has no perplexity", "--tagged")
    assert_told(regard("translate", out, stdin="a"), "does not translate", "tag")
    assert_told(regard("evaluate", out, out, "--tagged", test, "--picture", "p"), "--picture")


def conllu(count: int, *, upos: str = "X") -> str:
    """The grammar's labels as XPOS."""
    blocks = []
    for sentence in tagged_sentences(count, seed=count):
        rows = [
            "\t".join([str(number), word, "_", upos, label, *"_____"])
            for number, (word, label) in enumerate(sentence, 1)
        ]
        blocks.append("\n".join(rows) + "\n")
    return "\n".join(blocks)


def test_a_tagger_knows_its_column(folder: Path, regard: Command) -> None:
    train, test = folder / "train.conllu", folder / "test.conllu"
    train.write_text(conllu(200))
    test.write_text(conllu(20))
    data, out = folder / "xpos", folder / "xpos-tagger"
    regard("prepare", "--tagged", train, "--column", "5", "--vocab-size", "320", "--out", data)
    regard("train", "--preset", "tagger-tiny", "--data", data, "--out", out, *SMALL)
    rows = [line.split("\t") for line in regard("tag", out, stdin=conllu(2)).out.splitlines()]
    words = [row for row in rows if len(row) == 10]
    assert {row[3] for row in words} == {"X"}
    assert "B-thing" in {row[4] for row in words}
    (report,) = evaluated(regard, out, "--tagged", test)
    assert report["accuracy"] > 0.5
    wrong = regard("evaluate", out, "--tagged", test, "--column", "upos")
    assert_told(wrong, "knows none of these labels (X)", "--column")


def test_labels_that_a_model_does_not_know_are_mentioned(folder: Path, regard: Command) -> None:
    strange = folder / "strange.tags"
    strange.write_text("the\tO\nrun\tB-thing\n\nthe\tO\nrun\tB-weather\n")
    done = regard("evaluate", folder / "tagger", "--tagged", strange)
    assert "does not know 1 of 3 labels: B-weather" in done.err
    empty = folder / "empty.tags"
    empty.write_text("")
    assert_told(regard("evaluate", folder / "tagger", "--tagged", empty), "Check the path.")


def test_columns_that_are_swapped_are_noticed(folder: Path, regard: Command) -> None:
    swapped = folder / "swapped.tsv"
    swapped.write_text("".join(f"text number {n}\tgood\n" for n in range(200)))
    done = regard("prepare", "--labelled", swapped, "--vocab-size", "300", "--out", folder / "sw")
    assert "Nearly everything has a label of its own" in done.err
    assert "and 170 other labels" in done.err


def test_texts(folder: Path, regard: Command) -> None:
    files = ["--labelled", folder / "train.tsv", "--valid-labelled", folder / "valid.tsv"]
    data, out = folder / "labelled", folder / "classifier"
    done = regard("prepare", *files, "--tokenizer", "word", "--vocab-size", "300", "--out", data)
    assert "header: not read" in done.err
    regard("train", "--preset", "classifier-tiny", "--data", data, "--out", out, *SMALL)
    found = regard("classify", out, stdin="very good film\nplot very not good\n").out
    assert found == "True\tvery good film\nFalse\tplot very not good\n"
    assert regard("classify", out, "--labelled", stdin="x\tdull\n").out == "False\tdull\n"
    rows = "label\ttext\nTrue\tgood\nTrue\tdull\nFalse\tdull\n"
    assert regard("classify", out, "--labelled", stdin=rows).out.splitlines()[0] == "True\tgood"
    two = regard("classify", out, "good\tfilm")
    assert_told(two, "Text 1 has 2 columns", "trained with 1", "--labelled")
    row = json.loads(regard("classify", out, "--json", "not a dull film").out)
    assert row["probabilities"].keys() == {"True", "False"}
    told = regard("evaluate", out, "--labelled", folder / "valid.tsv").out
    assert "accuracy" in told
    assert "span" not in told


def test_options_that_mean_nothing_here(folder: Path, regard: Command) -> None:
    files, out = ["--tagged", folder / "train.tags"], ["--out", folder / "nothing"]
    for more in (["--source", "a"], ["--labelled", "a"], ["--no-skip-copied"]):
        assert_told(regard("prepare", *files, *more, *out), more[0].replace("no-", ""))
    assert_told(regard("prepare", *files, "--header", *out), "--header")
    assert_told(regard("prepare", "--labelled", "a", "--column", "2", *out), "--column")
    assert_told(regard("prepare", "--text", "a", "--column", "2", *out), "--column")
    assert_told(regard("prepare", *files, "--column", "9", *out), "--column", "1 to 2")
    assert not (folder / "nothing").exists()

"""Labels on the command line: prepare, train, tag, classify, evaluate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.commands import Command, regard
from cli.test_errors import assert_error
from labelled import columns, opinions, tagged_sentences

__all__ = ["regard"]  # a fixture

SMALL = [
    *(
        "--set",
        "model.d_model=32",
        "--set",
        "model.num_heads=2",
        "--set",
        "training.tensorboard=false",
    ),
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


def test_tagging_pipeline(folder: Path, regard: Command) -> None:
    files = ["--tagged", folder / "train.tags", "--valid-tagged", folder / "valid.tags"]
    data, out, test = folder / "tagged", folder / "tagger", folder / "valid.tags"
    result = regard("prepare", *files, "--vocab-size", "320", "--out", data)
    assert "examples kept" in result.err
    assert "--preset tagger-tiny" in result.err
    result = regard("train", "--preset", "tagger-tiny", "--data", data, "--out", out, *SMALL)
    assert "accuracy" in result.err
    assert f"regard tag {out}" in result.err
    assert regard("tag", out, "the run may").out == "the\tO\nrun\tB-thing\nmay\tO\n\n"
    assert regard("tag", out, stdin="the run\nmay smith\n").out.split("\n\n")[:2] == [
        "the\tO\nrun\tB-thing",
        "may\tB-name\nsmith\tI-name",
    ]
    output = regard("tag", out, stdin=CONLLU + "\n" + CONLLU).out
    wanted = CONLLU.replace("the\tX", "the\tO").replace("run\tX", "run\tB-thing")
    assert output == f"{wanted}\n{wanted}\n"
    tagged = regard("tag", out, "--input-format", "columns", stdin="the\nrun\n\nmay\n").out
    assert tagged.startswith("the\tO\nrun\tB-thing\n\nmay\t")
    row = json.loads(regard("tag", out, "--format", "jsonl", "the run").out)
    assert row["labels"] == ["O", "B-thing"]
    assert len(row["probabilities"]) == 2
    picture = folder / "confusion.png"
    table = regard("evaluate", out, "--tagged", test, "--worst", "3", "--picture", picture).out
    assert "span F1" in table
    assert picture.stat().st_size > 1000
    (report,) = evaluated(regard, out, "--tagged", test)
    assert report["accuracy"] >= 0.95
    assert report["labels"] == sum(map(len, tagged_sentences(40, seed=40)))
    assert sum(map(sum, report["confusion"])) == report["labels"]
    assert report["spans"]["overall"]["f1"] >= 0.9
    both = regard("evaluate", out, out, "--tagged", test).out
    assert "std" in both
    assert_error(regard("tag", out, stdin="a\tO\nb\n"), "line 2", "1 columns")
    assert_error(
        regard("tag", out, "--input-format", "tsv", stdin="a"), "must be text, columns or auto"
    )
    assert_error(regard("classify", out, "text"), "model kind 'tagger'", "classifier-tiny")
    assert_error(regard("evaluate", "--tagged", test), "Give a model folder")
    assert_error(regard("evaluate", out, "--text", test), "Perplexity is not supported", "--tagged")
    assert_error(regard("translate", out, stdin="a"), "does not translate", "tag")
    assert_error(regard("evaluate", out, out, "--tagged", test, "--picture", "p"), "--picture")


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


def test_tagger_uses_its_column_by_default(folder: Path, regard: Command) -> None:
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
    assert_error(wrong, "None of the labels (X) is in the label set", "--column")


def test_unknown_labels_are_reported(folder: Path, regard: Command) -> None:
    strange = folder / "strange.tags"
    strange.write_text("the\tO\nrun\tB-thing\n\nthe\tO\nrun\tB-weather\n")
    result = regard("evaluate", folder / "tagger", "--tagged", strange)
    assert "1 of 3 labels are not in the label set" in result.err
    assert "count as errors: B-weather." in result.err
    empty = folder / "empty.tags"
    empty.write_text("")
    assert_error(regard("evaluate", folder / "tagger", "--tagged", empty), "Check the path.")


def test_swapped_columns_are_reported(folder: Path, regard: Command) -> None:
    swapped = folder / "swapped.tsv"
    swapped.write_text("".join(f"text number {n}\tgood\n" for n in range(200)))
    result = regard("prepare", "--labelled", swapped, "--vocab-size", "300", "--out", folder / "sw")
    assert "Nearly every example has a different label" in result.err
    assert "and 170 other labels" in result.err


def test_classification_pipeline(folder: Path, regard: Command) -> None:
    files = ["--labelled", folder / "train.tsv", "--valid-labelled", folder / "valid.tsv"]
    data, out = folder / "labelled", folder / "classifier"
    result = regard("prepare", *files, "--tokenizer", "word", "--vocab-size", "300", "--out", data)
    assert "header: skipped" in result.err
    regard("train", "--preset", "classifier-tiny", "--data", data, "--out", out, *SMALL)
    output = regard("classify", out, stdin="very good film\nplot very not good\n").out
    assert output == "True\tvery good film\nFalse\tplot very not good\n"
    assert regard("classify", out, "--labelled", stdin="x\tdull\n").out == "False\tdull\n"
    rows = "label\ttext\nTrue\tgood\nTrue\tdull\nFalse\tdull\n"
    assert regard("classify", out, "--labelled", stdin=rows).out.splitlines()[0] == "True\tgood"
    two = regard("classify", out, "good\tfilm")
    assert_error(two, "Text 1 has 2 columns", "trained with 1", "--labelled")
    row = json.loads(regard("classify", out, "--format", "jsonl", "not a dull film").out)
    assert row["probabilities"].keys() == {"True", "False"}
    report = regard("evaluate", out, "--labelled", folder / "valid.tsv").out
    assert "accuracy" in report
    assert "span" not in report


def test_options_without_effect_are_refused(folder: Path, regard: Command) -> None:
    files, out = ["--tagged", folder / "train.tags"], ["--out", folder / "nothing"]
    for more in (["--source", "a"], ["--labelled", "a"], ["--no-skip-copied"]):
        assert_error(regard("prepare", *files, *more, *out), more[0].replace("no-", ""))
    assert_error(regard("prepare", *files, "--header", *out), "--header")
    assert_error(regard("prepare", "--labelled", "a", "--column", "2", *out), "--column")
    assert_error(regard("prepare", "--text", "a", "--column", "2", *out), "--column")
    assert_error(regard("prepare", *files, "--column", "9", *out), "--column", "1 to 2")
    assert not (folder / "nothing").exists()

"""Contrastive evaluation: the format of examples, and accuracies in context."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from cli.commands import Command
from cli.commands import regard as command
from document_corpora import write_document_store, write_letters_model
from regard.errors import DataError
from regard.evaluation.contrastive import ContrastiveExample, read_contrastive
from regard.pipelines.translator import Translator

__all__ = ["command"]  # a fixture

ROW: dict[str, Any] = {
    "source": "c d",
    "correct": "d c",
    "wrong": ["c d", "a"],
    "source_context": ["a b", "c"],
    "target_context": ["b a", "c"],
    "category": "order",
}
# The same source in two contexts; what is correct in one of them is wrong in the other.
MIRRORED = [
    ContrastiveExample("c d", first, (second,), (context,), (context,), category)
    for context, category in (("a b", "x"), ("e", "y"), ("f g h", ""))
    for first, second in (("d c", "c c d"), ("c c d", "d c"))
]


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    return write_letters_model(folder / "model", write_document_store(folder, 1, 1))


def test_examples_are_read(tmp_path: Path) -> None:
    minimal = {"source": "a", "correct": "b", "wrong": ["c"]}
    first, second = read_contrastive(write_rows(tmp_path / "set.jsonl", ROW, minimal))
    assert first == ContrastiveExample(
        "c d", "d c", ("c d", "a"), ("a b", "c"), ("b a", "c"), "order"
    )
    assert second == ContrastiveExample("a", "b", ("c",))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrong": []}, "wrong is empty"),
        ({"source": " "}, "source and source_context must not be blank"),
        ({"source_context": ["a", ""]}, "must not be blank"),
        ({"target_context": ["b"]}, "target_context has 1 sentences, but must have one for each"),
        ({"wrong": "a"}, "wrong"),
        ({"reference": "a"}, "reference"),
    ],
)
def test_wrong_examples_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_rows(tmp_path / "set.jsonl", ROW, {**ROW, **changes})
    with pytest.raises(DataError, match=r"set.jsonl, line 2,") as error:
        read_contrastive(path)
    assert message in str(error.value)


def test_files_without_examples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no examples"):
        read_contrastive(write_rows(tmp_path / "set.jsonl"))
    (tmp_path / "text").write_text("no JSON\n")
    with pytest.raises(DataError, match="line 1,"):
        read_contrastive(tmp_path / "text")


def test_accuracy_is_that_of_the_scores(folder: Path) -> None:
    model = regard.load(folder, device="cpu", backend="torch")
    result = model.evaluate_contrastive(MIRRORED)
    outcomes = {}
    for number, example in enumerate(MIRRORED):
        [context], targets = example.source_context, (example.correct, *example.wrong)
        correct, wrong = (
            model.score([context, example.source], [context, target])[1] for target in targets
        )
        outcomes[number] = correct > wrong
    assert result.accuracy == sum(outcomes.values()) / len(MIRRORED)
    assert result.categories == {
        "x": (outcomes[0] + outcomes[1]) / 2,
        "y": (outcomes[2] + outcomes[3]) / 2,
    }
    assert result.examples == len(MIRRORED)


def test_models_without_context_are_at_chance(folder: Path) -> None:
    model = Translator.load(folder, device="cpu", backend="torch")
    result = regard.load(*model.paths, device="cpu").evaluate_contrastive(
        MIRRORED, document_context=False
    )
    assert (result.accuracy, result.categories) == (0.5, {"x": 0.5, "y": 0.5})


def test_target_context_is_required_where_it_is_read(folder: Path) -> None:
    example = ContrastiveExample("a", "b", ("c",), ("d",))
    with pytest.raises(DataError, match="Example 1 has no target_context"):
        regard.load(folder, device="cpu").evaluate_contrastive([example])


def test_command(folder: Path, command: Command, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "set.jsonl", ROW, {**ROW, "category": ""})
    words = ["evaluate", folder, folder, "--contrastive", path]
    result = command(*words, "--format", "json")
    rows = json.loads(result.out)["results"]
    assert [row["name"] for row in rows] == [str(folder)] * 2
    expected = regard.load(folder, device="cpu").evaluate_contrastive(path)
    assert rows[0]["accuracy"] == expected.accuracy
    assert rows[0]["categories"] == expected.categories
    assert "order" in command(*words, "--no-document-context").out
    refused = command(*words, "--beam-size", "2")
    assert refused.status != 0
    assert "--beam-size: no effect on contrastive examples" in refused.err

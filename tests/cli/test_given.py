"""Options that would have no effect are refused by every verb, before any work."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, regard
from regard.data.store import Store
from toys import write_model_folder, write_text_store

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> dict[str, Path]:
    """Folders of models of several kinds, without training."""
    new, kind = tmp_path_factory.mktemp, "nonautoregressive"
    return {
        "in turn": write_model_folder(new("a"), reversal_store),
        "fertility": write_model_folder(new("b"), reversal_store, kind=kind),
        "ctc": write_model_folder(new("c"), reversal_store, kind=kind, lengths="ctc"),
        "causal": write_model_folder(new("d"), write_text_store(new("store")), kind="causal"),
    }


REFUSED = [
    ("translate", "in turn", "--temperature", "0.5"),
    ("translate", "in turn", "--top-k", "3"),
    ("translate", "in turn", "--top-p", "0.5"),
    ("translate", "in turn", "--seed", "1"),
    ("translate", "in turn", "--candidates", "2"),
    ("translate", "in turn", "--fertility", "average"),
    ("translate", "in turn", "--patience", "1", "--sample"),
    ("translate", "in turn", "--beam-size", "5", "--sample"),
    ("translate", "fertility", "--beam-size", "5"),
    ("translate", "fertility", "--patience", "1"),
    ("translate", "ctc", "--max-ratio", "3"),
    ("translate", "ctc", "--at-limit", "free"),
    ("translate", "ctc", "--seed", "3"),
    ("generate", "causal", "--temperature", "0.5", "--beam-size", "2"),
    ("generate", "causal", "--top-k", "4", "--beam-size", "1"),
    ("generate", "causal", "--patience", "2"),
    ("generate", "causal", "--seed", "2", "--beam-size", "1"),
]
TAKEN = [
    ("translate", "in turn", "--patience", "1", "--beam-size", "1"),
    ("translate", "in turn", "--sample", "--beam-size", "1"),
    ("translate", "in turn", "--temperature", "1.0"),
    ("translate", "in turn", "--patience", "1", "--min-length", "0"),
    ("translate", "in turn", "--sample", "--temperature", "0.5", "--seed", "4"),
    ("translate", "ctc", "--candidates", "3", "--patience", "0"),
    ("generate", "causal", "--beam-size", "2", "--patience", "1"),
    ("generate", "causal", "--temperature", "0.5", "--top-k", "4", "--seed", "3"),
]


def called(regard: Command, models: dict[str, Path], words: tuple[str, ...]) -> tuple[int, str]:
    verb, model, *options = words
    more = ["a", "--max-tokens", "1"] if verb == "generate" else []
    done = regard(verb, models[model], *more, *options, stdin="a b\n")
    return done.status, done.err


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_search_options_without_effect(
    words: tuple[str, ...], models: dict[str, Path], regard: Command
) -> None:
    status, said = called(regard, models, words)
    assert status == 2
    assert words[2].removeprefix("--").replace("-", "_") in said
    assert "no effect" in said


@pytest.mark.parametrize("words", TAKEN, ids=" ".join)
def test_search_options_with_effect(
    words: tuple[str, ...], models: dict[str, Path], regard: Command
) -> None:
    status, said = called(regard, models, words)
    assert status == 0, said


@pytest.mark.parametrize(
    "words",
    [
        ("--text", "file", "--beam-size", "2"),
        ("--text", "file", "--metrics", "bleu"),
        ("--tagged", "file", "--lowercase"),
        ("--labelled", "file", "--stride", "3"),
        ("--reference", "file", "--source", "file", "--stride", "3"),
        ("--reference", "file", "--source", "file", "--column", "2"),
        ("--reference", "file", "--source", "file", "--resamples", "200"),
    ],
    ids=" ".join,
)
def test_options_of_another_evaluation(
    words: tuple[str, ...], models: dict[str, Path], tmp_path: Path, regard: Command
) -> None:
    (tmp_path / "file").write_text("a b\n")
    paths = [str(tmp_path / word) if word == "file" else word for word in words]
    done = regard("evaluate", models["in turn"], *paths)
    assert done.status == 2
    assert "no effect" in done.err


def test_options_for_models_where_none_translates(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "file").write_text("a b\n")
    given = ["evaluate", "--hypotheses", tmp_path / "file", "--reference", tmp_path / "file"]
    assert regard(*given).status == 0
    for option in (["--beam-size", "2"], ["--backend", "torch"], ["--ensemble"]):
        done = regard(*given, *option)
        assert done.status == 2
        assert option[0] in done.err


def test_comparisons_of_models_and_of_layers(models: dict[str, Path], regard: Command) -> None:
    assert "--width: for layers" in regard("compare", models["in turn"], "--width", "8").err
    assert "--beam-size: for models" in regard("compare", "--beam-size", "3").err


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("causal", "--real"),
        ("padding", "--memory"),
        ("prefix", "--width"),
        ("segments", "--seed"),
        ("window", "--no-itself"),
        ("permutation", "--segment"),
    ],
)
def test_options_of_another_mask(kind: str, option: str, regard: Command) -> None:
    value = [] if option.startswith("--no-") else ["3"]
    done = regard("show", "mask", kind, option, *value)
    assert done.status == 2
    assert f"no effect on the {kind} mask" in done.err


def test_one_test_at_a_time(tmp_path: Path, regard: Command) -> None:
    done = regard("evaluate", "model", "--tagged", tmp_path / "a", "--labelled", tmp_path / "b")
    assert done.status == 2
    assert "--tagged and --labelled are different tests. Give one of them." in done.err

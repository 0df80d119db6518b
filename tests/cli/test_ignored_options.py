"""Every command refuses options without effect before it does any work."""

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
        "ctc": write_model_folder(new("c"), reversal_store, kind=kind, length_prediction="ctc"),
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
    ("translate", "in turn", "--retry-below", "0.5", "--no-retry"),
    ("translate", "in turn", "--retry-above", "2", "--at-limit", "cut"),
    ("translate", "in turn", "--retry-above", "2", "--sample"),
    ("translate", "ctc", "--retry-below", "0.5"),
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
    ("translate", "in turn", "--retry-below", "0", "--no-retry"),
    ("translate", "in turn", "--retry-below", "0.5", "--retry-above", "2"),
    ("translate", "in turn", "--patience", "1", "--min-length", "0"),
    ("translate", "in turn", "--sample", "--temperature", "0.5", "--seed", "4"),
    ("translate", "ctc", "--candidates", "3", "--patience", "0"),
    ("generate", "causal", "--beam-size", "2", "--patience", "1"),
    ("generate", "causal", "--temperature", "0.5", "--top-k", "4", "--seed", "3"),
]


def called(regard: Command, models: dict[str, Path], arguments: tuple[str, ...]) -> tuple[int, str]:
    name, model, *options = arguments
    more = ["a", "--max-tokens", "1"] if name == "generate" else []
    result = regard(name, models[model], *more, *options, stdin="a b\n")
    return result.status, result.err


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_search_options_without_effect_are_refused(
    arguments: tuple[str, ...], models: dict[str, Path], regard: Command
) -> None:
    status, stderr = called(regard, models, arguments)
    assert status == 2
    assert arguments[2].removeprefix("--").replace("-", "_") in stderr
    assert "no effect" in stderr


@pytest.mark.parametrize("arguments", TAKEN, ids=" ".join)
def test_search_options_with_effect_are_accepted(
    arguments: tuple[str, ...], models: dict[str, Path], regard: Command
) -> None:
    status, stderr = called(regard, models, arguments)
    assert status == 0, stderr


@pytest.mark.parametrize(
    "arguments",
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
def test_options_of_another_evaluation_are_refused(
    arguments: tuple[str, ...], models: dict[str, Path], tmp_path: Path, regard: Command
) -> None:
    (tmp_path / "file").write_text("a b\n")
    paths = [str(tmp_path / word) if word == "file" else word for word in arguments]
    result = regard("evaluate", models["in turn"], *paths)
    assert result.status == 2
    assert "no effect" in result.err


def test_model_options_without_a_model_are_refused(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "file").write_text("a b\n")
    evaluation = ["evaluate", "--hypotheses", tmp_path / "file", "--reference", tmp_path / "file"]
    assert regard(*evaluation).status == 0
    for option in (["--beam-size", "2"], ["--backend", "torch"], ["--ensemble"]):
        result = regard(*evaluation, *option)
        assert result.status == 2
        assert option[0] in result.err


def test_options_of_the_other_comparison_are_refused(
    models: dict[str, Path], regard: Command
) -> None:
    assert (
        "--d-model: no effect on models"
        in regard("compare", models["in turn"], "--d-model", "8").err
    )
    assert "--beam-size: no effect without models" in regard("compare", "--beam-size", "3").err


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
def test_options_of_another_mask_are_refused(kind: str, option: str, regard: Command) -> None:
    value = [] if option.startswith("--no-") else ["3"]
    result = regard("show", "mask", kind, option, *value)
    assert result.status == 2
    assert f"no effect on the {kind} mask" in result.err


def test_mutually_exclusive_tests_are_refused(tmp_path: Path, regard: Command) -> None:
    result = regard("evaluate", "model", "--tagged", tmp_path / "a", "--labelled", tmp_path / "b")
    assert result.status == 2
    assert "--tagged and --labelled are mutually exclusive tests. Give one of them." in result.err

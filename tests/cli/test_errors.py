"""User errors: a message with what, where and what to do; exit status 2, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, Outcome, regard
from regard.data.store import Store

__all__ = ["regard"]  # a fixture


def assert_error(outcome: Outcome, *arguments: str) -> None:
    assert outcome.status == 2, outcome.err
    assert "Traceback" not in outcome.err
    for word in arguments:
        assert word in outcome.err


def test_missing_file(tmp_path: Path, regard: Command) -> None:
    nowhere = tmp_path / "nowhere.en"
    result = regard("prepare", "--source", nowhere, "--target", nowhere, "--out", tmp_path / "out")
    assert_error(result, "There is no file", "nowhere.en")
    assert not (tmp_path / "out").exists()


def test_files_of_different_length(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "b"]
    assert_error(regard("prepare", *files, "--out", tmp_path / "out"), "2 lines", "has 1", "line 2")


def test_prepared_folder_is_replaced_with_overwrite_only(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one two\n")
    (tmp_path / "b").write_text("eins zwei\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "b", "--tokenizer", "char"]
    arguments = ["prepare", *files, "--out", tmp_path / "out"]
    assert regard(*arguments).status == 0
    before = (tmp_path / "out" / "store.json").read_bytes()
    assert_error(regard(*arguments, "--lowercase"), "exists", "--overwrite")
    assert (tmp_path / "out" / "store.json").read_bytes() == before
    assert regard(*arguments, "--lowercase", "--overwrite").status == 0
    assert (tmp_path / "out" / "store.json").read_bytes() != before


def test_source_without_target(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "out"]
    assert_error(regard("prepare", "--source", "a", *out), "given without --target")
    assert_error(regard("prepare", "--text", "a", "--valid-source", "b", *out), "--valid-source")


def test_validation_source_without_target(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "a", "--valid-source", "v"]
    assert_error(regard("prepare", *files, "--out", tmp_path / "out"), "--valid-target")


def test_number_of_corpora_differs(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "out"]
    double, single = ["--source", "a", "--source", "b"], ["--target", "c"]
    assert_error(regard("prepare", *double, *single, *out), "--source is given 2", "--target 1")
    tags = ["--tag", "<bt>"]
    assert_error(regard("prepare", *double, *single, *single, *tags, *out), "--tag 1", '--tag ""')
    assert_error(
        regard("prepare", *double, *single, *tags, *out), "2 problems", "--target 1", "--tag 1"
    )
    bad = ["--tag", "a b", "--tag", " "]
    assert_error(
        regard("prepare", *double, *single, *single, *bad, *out), "2 problems", "'a b'", "' '"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--vocab-size", "8000"], "--vocab-size"),
        (["--tokenizer", "bpe", "--no-nfkc"], "--tokenizer, --nfkc"),
        (["--separate", "--lowercase"], "--joint, --lowercase"),
    ],
)
def test_tokenizer_options_with_tokenizer_from(
    options: list[str], names: str, tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    files = ["--source", "a", "--target", "b", "--out", tmp_path / "out"]
    reused = ["--tokenizer-from", reversal_store.folder]
    result = regard("prepare", *files, *reused, *options)
    assert_error(result, f"{names}: ", "Leave it out")


def test_folder_without_a_tokenizer(tmp_path: Path, regard: Command) -> None:
    files = ["--source", "a", "--target", "b", "--out", tmp_path / "out"]
    (tmp_path / "empty").mkdir()
    result = regard("prepare", *files, "--tokenizer-from", tmp_path / "empty")
    assert_error(result, "There is no tokenizer in", "regard train --out")


@pytest.mark.parametrize(
    ("weights", "fragments"),
    [
        (
            "[1,2]",
            [
                "data.corpus_weights has 2 values, but the data has 1 corpora",
                "train.source train.target",
            ],
        ),
        ("[0]", ["leaves 0 pairs per epoch"]),
        ("[-1]", ["data.corpus_weights[0] is -1.0, but must be at least 0"]),
        ("1", ["data.corpus_weights is 1, but must be list of number"]),
    ],
)
def test_invalid_corpus_weights(
    weights: str, fragments: list[str], tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    place = ["--preset", "tiny", "--data", reversal_store.folder, "--out", tmp_path / "run"]
    assert_error(regard("train", *place, "--set", f"data.corpus_weights={weights}"), *fragments)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("assignment", "fragments"),
    [
        ("training.max_step=3", ["training.max_step does not exist", "training.max_steps"]),
        ("model.num_heads=7", ["model.num_heads is 7", "d_model"]),
        ("model.activation=tanh", ["model.activation", "relu | gelu | gelu_tanh | silu"]),
        ("training.max_steps=many", ["training.max_steps", "integer"]),
        ("nonsense", ["section.name=value"]),
    ],
)
def test_invalid_settings(
    assignment: str, fragments: list[str], tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    place = ["--data", reversal_store.folder, "--out", tmp_path / "run"]
    assert_error(regard("train", *place, "--set", assignment), *fragments)
    assert not (tmp_path / "run").exists()


def test_missing_preset_recipe_and_data(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "run"]
    assert_error(regard("train", "--preset", "huge", *out), "tiny, small, base, big")
    assert_error(regard("train", tmp_path / "no.toml", *out), "no.toml does not exist")
    assert_error(regard("train", "--data", tmp_path, *out), "not a prepared folder")
    (tmp_path / "bad.toml").write_text("out = [")
    assert_error(regard("train", tmp_path / "bad.toml"), "not valid TOML")
    assert_error(regard("train", "--preset", "tiny"), "--out")


def test_missing_model(tmp_path: Path, regard: Command) -> None:
    assert_error(regard("translate", tmp_path / "no"), "There is no model folder")
    assert_error(regard("translate", tmp_path), "not a model folder")
    (tmp_path / "test.en").touch()
    text = tmp_path / "test.en"
    assert_error(regard("translate", tmp_path, text), f"{text} is a file", f"use < {text}")


def test_input_that_is_not_utf8(tmp_path: Path, regard: Command, reversal_store: Store) -> None:
    from regard.models.folder import WEIGHTS, named_weights, write_tensors
    from toys import new_folder, small_run

    folder = new_folder(small_run(tmp_path, reversal_store).model, reversal_store)
    write_tensors(tmp_path / WEIGHTS, named_weights(folder.model()), {})
    folder.write(tmp_path)
    result = regard("translate", tmp_path, stdin=b"a b\n\xff\xfe\n")
    assert_error(result, "standard input, line 2", "UTF-8")
    assert result.out.count("\n") == 1  # the line before is not lost
    assert_error(regard("translate", tmp_path, "--format", "xml"), "must be text, json or jsonl")
    assert_error(regard("translate", tmp_path, "--device", "abacus"), "Use cpu, cuda, cuda:1")
    assert_error(regard("translate", tmp_path, "--num-hypotheses", "9"), "at most beam_size (5)")


def test_show_with_invalid_values(regard: Command) -> None:
    assert_error(regard("show", "mask", "carnival"), "causal, padding, prefix")
    assert_error(regard("show", "positions", "--layout", "spiral"), "interleaved or halves")


def test_output_without_write_permission(regard: Command) -> None:
    result = regard("show", "mask", "--out", "/proc/picture.png")
    assert result.status == 2
    assert "/proc" in result.err


def test_nothing_to_evaluate(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "empty").touch()
    files = ["--source", tmp_path / "empty", "--reference", tmp_path / "empty"]
    assert_error(regard("evaluate", tmp_path, *files), "nothing to evaluate")


def test_folder_as_recipe(tmp_path: Path, regard: Command) -> None:
    assert_error(regard("train", tmp_path), "is a folder")

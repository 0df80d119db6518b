"""Every mistake is one sentence that says what, where and what to do; exit 2, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import Command, Outcome, regard
from regard.data.store import Store

__all__ = ["regard"]  # a fixture


def assert_told(outcome: Outcome, *words: str) -> None:
    assert outcome.status == 2, outcome.err
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


def test_a_missing_file(tmp_path: Path, regard: Command) -> None:
    nowhere = tmp_path / "nowhere.en"
    done = regard("prepare", "--source", nowhere, "--target", nowhere, "--out", tmp_path / "out")
    assert_told(done, "There is no file", "nowhere.en")
    assert not (tmp_path / "out").exists()


def test_unequal_files(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    (tmp_path / "b").write_text("eins\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "b"]
    assert_told(regard("prepare", *files, "--out", tmp_path / "out"), "2 lines", "has 1", "line 2")


def test_what_is_prepared_is_replaced_only_if_one_says_so(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one two\n")
    (tmp_path / "b").write_text("eins zwei\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "b", "--tokenizer", "char"]
    words = ["prepare", *files, "--out", tmp_path / "out"]
    assert regard(*words).status == 0
    before = (tmp_path / "out" / "store.json").read_bytes()
    assert_told(regard(*words, "--lowercase"), "exists", "--overwrite")
    assert (tmp_path / "out" / "store.json").read_bytes() == before
    assert regard(*words, "--lowercase", "--overwrite").status == 0
    assert (tmp_path / "out" / "store.json").read_bytes() != before


def test_half_of_a_pair(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "out"]
    assert_told(regard("prepare", "--source", "a", *out), "--target is not")
    assert_told(regard("prepare", "--text", "a", "--valid-source", "b", *out), "--valid-source")


def test_half_a_validation_set(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "a").write_text("one\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "a", "--valid-source", "v"]
    assert_told(regard("prepare", *files, "--out", tmp_path / "out"), "--valid-target")


def test_corpora_that_do_not_match(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "out"]
    two, one = ["--source", "a", "--source", "b"], ["--target", "c"]
    assert_told(regard("prepare", *two, *one, *out), "--source is given 2", "--target 1")
    tags = ["--tag", "<bt>"]
    assert_told(regard("prepare", *two, *one, *one, *tags, *out), "--tag 1", '--tag ""')
    assert_told(regard("prepare", *two, *one, *tags, *out), "2 problems", "--target 1", "--tag 1")
    bad = ["--tag", "a b", "--tag", " "]
    assert_told(regard("prepare", *two, *one, *one, *bad, *out), "2 problems", "'a b'", "' '")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--vocab-size", "8000"], "--vocab-size"),
        (["--tokenizer", "bpe", "--no-nfkc"], "--tokenizer, --nfkc"),
        (["--separate", "--lowercase"], "--joint, --lowercase"),
    ],
)
def test_options_of_a_tokenizer_that_is_taken(
    options: list[str], names: str, tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    files = ["--source", "a", "--target", "b", "--out", tmp_path / "out"]
    taken = ["--tokenizer-from", reversal_store.folder]
    done = regard("prepare", *files, *taken, *options)
    assert_told(done, f"{names}: ", "Leave it out")


def test_a_folder_without_a_tokenizer(tmp_path: Path, regard: Command) -> None:
    files = ["--source", "a", "--target", "b", "--out", tmp_path / "out"]
    (tmp_path / "empty").mkdir()
    done = regard("prepare", *files, "--tokenizer-from", tmp_path / "empty")
    assert_told(done, "There is no tokenizer in", "regard train --out")


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("[1,2]", ["data.weights has 2 numbers, and 1 are needed", "train.source train.target"]),
        ("[0]", ["leaves 0 pairs an epoch"]),
        ("[-1]", ["data.weights[0] is -1.0, and must be at least 0"]),
        ("1", ["data.weights is 1, and must be list of number"]),
    ],
)
def test_weights(
    weights: str, words: list[str], tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    place = ["--preset", "tiny", "--data", reversal_store.folder, "--out", tmp_path / "run"]
    assert_told(regard("train", *place, "--set", f"data.weights={weights}"), *words)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("training.max_step=3", ["training.max_step does not exist", "training.max_steps"]),
        ("model.heads=7", ["model.heads is 7", "width"]),
        ("model.activation=tanh", ["model.activation", "relu | gelu | gelu_tanh | silu"]),
        ("training.max_steps=many", ["training.max_steps", "integer"]),
        ("nonsense", ["section.name=value"]),
    ],
)
def test_settings(
    assignment: str, words: list[str], tmp_path: Path, regard: Command, reversal_store: Store
) -> None:
    place = ["--data", reversal_store.folder, "--out", tmp_path / "run"]
    assert_told(regard("train", *place, "--set", assignment), *words)
    assert not (tmp_path / "run").exists()


def test_a_preset_a_recipe_and_data_that_are_not_there(tmp_path: Path, regard: Command) -> None:
    out = ["--out", tmp_path / "run"]
    assert_told(regard("train", "--preset", "huge", *out), "tiny, small, base, big")
    assert_told(regard("train", tmp_path / "no.toml", *out), "There is no recipe")
    assert_told(regard("train", "--data", tmp_path, *out), "not a prepared folder")
    (tmp_path / "bad.toml").write_text("out = [")
    assert_told(regard("train", tmp_path / "bad.toml"), "not valid TOML")
    assert_told(regard("train", "--preset", "tiny"), "--out")


def test_a_model_that_is_not_there(tmp_path: Path, regard: Command) -> None:
    assert_told(regard("translate", tmp_path / "no"), "There is no model folder")
    assert_told(regard("translate", tmp_path), "not a model folder")
    (tmp_path / "test.en").touch()
    text = tmp_path / "test.en"
    assert_told(regard("translate", tmp_path, text), f"{text} is a file", f"use < {text}")


def test_input_that_is_not_utf8(tmp_path: Path, regard: Command, reversal_store: Store) -> None:
    from regard.models.folder import WEIGHTS, weights_of, write_tensors
    from toys import new_folder, small_run

    folder = new_folder(small_run(tmp_path, reversal_store).model, reversal_store)
    write_tensors(tmp_path / WEIGHTS, weights_of(folder.model()), {})
    folder.write(tmp_path)
    done = regard("translate", tmp_path, stdin=b"a b\n\xff\xfe\n")
    assert_told(done, "standard input, line 2", "UTF-8")
    assert done.out.count("\n") == 1  # the line before is not lost
    assert_told(regard("translate", tmp_path, "--format", "xml"), "Use text, json or jsonl")
    assert_told(regard("translate", tmp_path, "--device", "abacus"), "Use cpu, cuda, cuda:1")
    assert_told(regard("translate", tmp_path, "--top-beams", "9"), "beam_size 5")


def test_pictures_of_what_does_not_exist(regard: Command) -> None:
    assert_told(regard("show", "mask", "carnival"), "causal, padding, prefix")
    assert_told(regard("show", "positions", "--layout", "spiral"), "interleaved or halves")


def test_an_output_that_may_not_be_written(regard: Command) -> None:
    done = regard("show", "mask", "--out", "/proc/picture.png")
    assert done.status == 2
    assert "/proc" in done.err


def test_nothing_to_evaluate(tmp_path: Path, regard: Command) -> None:
    (tmp_path / "empty").touch()
    files = ["--source", tmp_path / "empty", "--reference", tmp_path / "empty"]
    assert_told(regard("evaluate", tmp_path, *files), "nothing to evaluate")


def test_a_folder_is_no_recipe(tmp_path: Path, regard: Command) -> None:
    assert_told(regard("train", tmp_path), "it is a folder")

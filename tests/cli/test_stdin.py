"""Standard input: plain text, gzip, empty input, and unreadable input."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cli.commands import Command, regard
from cli.test_errors import assert_error
from regard.data.store import Store
from toys import write_model_folder, write_text_store

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path_factory.mktemp("model"), reversal_store)


def test_gzip_is_detected(model: Path, regard: Command) -> None:
    text = b"a b c\nd e\n" * 3
    plain = regard("translate", model, stdin=text)
    assert plain.out.count("\n") == 6
    assert regard("translate", model, stdin=gzip.compress(text)).out == plain.out
    cut = regard("translate", model, "--buffer-size", "2", stdin=gzip.compress(text)[:-6])
    assert_error(cut, "standard input is a damaged gzip file")


def test_binary_input_is_refused(model: Path, regard: Command) -> None:
    result = regard("translate", model, stdin=b"a b\nc\0d\n")
    assert_error(result, "standard input, line 2: contains a NUL character", "UTF-8")
    assert result.out.count("\n") == 1  # the line before is not lost


def test_other_encodings_are_reported(model: Path, tmp_path: Path, regard: Command) -> None:
    text = "a b\n" * 40
    result = regard("translate", model, stdin=text.encode("utf-16"))
    assert_error(result, "standard input is encoded in UTF-16", "iconv -f UTF-16 -t UTF-8")
    assert result.out == ""
    (tmp_path / "text").write_bytes(text.encode("utf-16"))
    files = "--source", tmp_path / "text", "--target", tmp_path / "text"
    result = regard("prepare", *files, "--out", tmp_path / "out")
    assert_error(result, f"{tmp_path / 'text'} is encoded in UTF-16")
    assert result.err.count("UTF-16,") == 1


@pytest.mark.parametrize(("lines", "more"), [(3, ""), (4, "1 more line."), (9, "6 more lines.")])
def test_repeated_notices_are_counted(model: Path, lines: int, more: str, regard: Command) -> None:
    result = regard("translate", model, "--buffer-size", "2", stdin=("a " * 200 + "\n") * lines)
    assert result.err.count("has a sentence longer than") == 3
    assert result.err.count("more line") == bool(more)
    assert more in result.err


@pytest.mark.parametrize(
    ("name", "kind"),
    [("translate", None), ("generate", "causal"), ("fill", "masked"), ("embed", "masked")],
)
def test_empty_input_is_reported(
    name: str, kind: str | None, model: Path, tmp_path: Path, regard: Command
) -> None:
    if kind is not None:
        model = write_model_folder(tmp_path / "language", write_text_store(tmp_path), kind=kind)
    result = regard(name, model)
    assert (result.status, result.out) == (0, "")
    assert "standard input is empty." in result.err
    assert "empty" not in regard(name, model, stdin="a [MASK]\n").err


def test_line_beyond_the_limit_is_refused(model: Path, tmp_path: Path, regard: Command) -> None:
    text = "a b\n" + "a" * 300 + "\n"
    result = regard("--max-line-length", "200", "translate", model, stdin=text)
    assert_error(
        result, "standard input, line 2: has more than 200 characters", "--max-line-length"
    )
    assert result.out.count("\n") == 1  # the line before is not lost
    assert regard("translate", model, stdin=text).out.count("\n") == 2
    (tmp_path / "text").write_text(text)
    files = ["--source", tmp_path / "text", "--target", tmp_path / "text"]
    result = regard("--max-line-length", "200", "score", model, *files)
    assert_error(result, f"{tmp_path / 'text'}, line 2: has more than 200 characters")
    assert_error(regard("translate", model, stdin=b"a" * 10**7), "more than 100,000 characters")


def test_long_lines_are_filtered_by_prepare(tmp_path: Path, regard: Command) -> None:
    long = "b" * 500_000
    (tmp_path / "a").write_text(f"one two\n{long}\nthree four\n")
    (tmp_path / "b").write_text(f"eins zwei\n{long}\ndrei vier\n")
    arguments = ["--tokenizer", "char", "--source", tmp_path / "a", "--target", tmp_path / "b"]
    result = regard("prepare", *arguments, "--out", tmp_path / "pairs")
    assert result.status == 0, result.err
    assert "too many characters: skipped" in result.err
    allowed = regard(
        *["prepare", *arguments, "--out", tmp_path / "long", "--max-characters", "600000"],
        *["--max-tokens", "600000", "--no-skip-copied"],
    )
    assert "too many characters" not in allowed.err
    running = ["prepare", "--text", tmp_path / "a", "--tokenizer", "char"]
    result = regard(*running, "--out", tmp_path / "text")
    assert_error(result, "line 2: has more than 100,000 characters", "--max-line-length 1000000")
    result = regard("--max-line-length", "1000000", *running, "--out", tmp_path / "text")
    assert result.status == 0, result.err

"""Exceptions become one message and an exit status; bugs are logged with a traceback."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.commands import Command, regard
from regard.cli.failures import exit_status
from regard.errors import RegardError
from regard.version import __version__

__all__ = ["regard"]  # a fixture

BUGS = [AssertionError, AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "regard"


def status_of(error: BaseException) -> int:
    def command() -> None:
        raise error

    return exit_status(command)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(BUGS), message=st.text(max_size=400))
def test_bug_is_reported_in_one_line_with_a_log(
    kind: type[Exception], message: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(kind(message)) == 70
    stderr = capsys.readouterr().err
    path = Path(stderr.rstrip().removesuffix(".").rsplit(" ", 1)[-1])
    assert stderr.count("\n") == 1
    assert f"{kind.__name__}" in stderr
    assert "This is a bug in regard. The traceback is in" in stderr
    assert path.parent == state
    assert path.stat().st_mode & 0o077 == 0
    assert path.read_text().startswith(f"regard {__version__}, Python ")
    assert "Traceback (most recent call last)" in path.read_text()
    path.unlink()


def test_traceback_is_printed_if_no_log_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "file"))
    assert status_of(ValueError("odd")) == 70
    assert "Traceback" in capsys.readouterr().err


def too_large() -> None:
    torch.empty(2**60)


def too_deep() -> None:
    too_deep()


def surrogate() -> None:
    "caf\udce9".encode()


@pytest.mark.parametrize(
    ("command", "fragments"),
    [
        (too_large, ["Out of memory", "--batch-size"]),
        (lambda: bytearray(2**62), ["Out of memory"]),
        (too_deep, ["nested too deeply"]),
        (surrogate, [r"'caf\udce9'", "UTF-8"]),
        (lambda: os.open("/" + "x" * 300, os.O_RDONLY), ["name is too long", "xxx"]),
        (lambda: Path("a\0b").read_bytes(), ["NUL character"]),
        (lambda: os.read(10**6, 1), [os.strerror(errno.EBADF)]),
    ],
)
def test_user_errors_have_status_2(
    command: object, fragments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(command) == 2  # type: ignore[arg-type]
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in stderr


def test_out_of_memory_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")) == 2
    assert "CUDA out of memory. Tried" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (SystemExit(), 0, ""),
        (SystemExit(3), 3, ""),
        (SystemExit(130), 130, "Ctrl-C"),
        (KeyboardInterrupt(), 130, "Ctrl-C"),
        (RegardError("Too bad."), 2, "regard: Too bad."),
    ],
)
def test_exit_statuses(
    error: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(error) == status
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("error", [EOFError, BrokenPipeError, ZeroDivisionError])
def test_exceptions_that_typer_would_hide(
    error: type[Exception], regard: Command, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(sys.modules["regard.config"], "settings_of", fail)
    result = regard("show", "settings", expect_bug=True)
    assert result.status == 70
    assert error.__name__ in result.err
    assert len([*state.iterdir()]) == 1

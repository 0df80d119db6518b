"""Runs the command in this process."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from regard.cli import main


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def regard(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Command:
    """Call it with the words of a command line; `stdin` is what is piped in.

    An unexpected exception fails the test with its traceback, unless `expect_bug`.
    """
    if "XDG_STATE_HOME" not in os.environ:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))

    def call(*arguments: str | Path, stdin: str | bytes = b"", expect_bug: bool = False) -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        with pytest.raises(SystemExit) as exit_info:
            main()
        captured = capsys.readouterr()
        if exit_info.value.code == 70 and not expect_bug:
            pytest.fail(log_of(captured.err))
        return Outcome(int(exit_info.value.code or 0), captured.out, captured.err)

    return call


def log_of(message: str) -> str:
    """The log that a sentence about an unexpected exception names."""
    return Path(message.rstrip().removesuffix(".").rsplit(" ", 1)[-1]).read_text()

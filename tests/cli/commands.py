"""Runs the command in this process, as a person would call it."""

from __future__ import annotations

import io
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
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call it with the words of a command line; `stdin` is what is piped in."""

    def call(*words: str | Path, stdin: str | bytes = b"") -> Outcome:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))
        with pytest.raises(SystemExit) as left:
            main()
        captured = capsys.readouterr()
        return Outcome(int(left.value.code or 0), captured.out, captured.err)

    return call

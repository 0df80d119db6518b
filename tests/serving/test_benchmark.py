"""The load benchmark against a running server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import serving
from serving_process import ServerProcess


def test_load(
    server: ServerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = tmp_path / "text.en"
    text.write_text("mira tolu\nsen kapi\n")
    arguments = ["--url", server.url, "--text", str(text), "--seconds", "0.3", "--clients", "2"]
    monkeypatch.setattr(sys, "argv", ["serving.py", *arguments])
    serving.main()
    row = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert row[0] == "2"
    assert float(row[1].replace(",", "")) > 1
    assert row[4:] == ["0", "0"]
    monkeypatch.setattr(sys, "argv", ["serving.py", *arguments, "--soak", "0.5", "--rate", "20"])
    serving.main()
    assert "20 requests/s" in capsys.readouterr().out


def test_only_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["--url", "http://example.org", "--text", "x"]
    monkeypatch.setattr(sys, "argv", ["serving.py", *arguments])
    with pytest.raises(SystemExit):
        serving.main()

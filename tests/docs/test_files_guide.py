"""The commands of docs/guides/files.md, on small documents."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cli.commands import Command, regard
from docs.generated import DOCS
from documents.samples import HTML, PO, SRT, docx_sample
from regard.data.store import Store
from regard.documents.formats import FORMATS
from toys import write_model_folder

__all__ = ["regard"]  # a fixture

PAGE = (DOCS / "guides" / "files.md").read_text(encoding="utf-8")
FILES = {
    "report.docx": docx_sample,
    "page.html": HTML.encode,
    "film.srt": SRT.encode,
    "messages.po": PO.encode,
    "messages.pot": PO.encode,
}


def test_every_command_runs(
    tmp_path: Path, reversal_store: Store, regard: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model_folder(tmp_path / "runs" / "ende", reversal_store)
    for name, make in FILES.items():
        (tmp_path / name).write_bytes(make())
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^ {4}regard (.*)$", PAGE, re.M)
    assert len(lines) == 5
    for line in lines:
        (tmp_path / "report.de.docx").unlink(missing_ok=True)
        result = regard(*shlex.split(line))
        assert result.status == 0, f"{line}\n{result.err}"
    assert {path.name for path in (tmp_path / "translated").iterdir()} == {"page.html", "film.srt"}
    assert len(result.out.splitlines()) == 9


def test_all_formats_and_suffixes_are_listed() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| (`[^|]*) \|", PAGE, re.M)
    listed = {name: suffixes for names, suffixes in rows for name in re.findall("`(.*?)`", names)}
    assert {*listed} == {*FORMATS}
    for name, suffixes in listed.items():
        assert {*FORMATS[name].suffixes} <= {*re.findall("`(.*?)`", suffixes)}

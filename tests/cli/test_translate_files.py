"""regard translate --file."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import docx
import pytest

from cli.commands import Command, regard
from documents.samples import SAMPLES
from regard.data.store import Store
from toys import write_model_folder

__all__ = ["regard"]  # a fixture


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    return write_model_folder(tmp_path_factory.mktemp("model"), reversal_store)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a document of each format."""
    for name, (_, make) in SAMPLES.items():
        (tmp_path / name).write_bytes(make())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_document_is_translated(model: Path, folder: Path, regard: Command) -> None:
    content = (folder / "a.docx").read_bytes()
    result = regard("translate", model, "--file", "a.docx", "--out", "new/b.docx")
    assert result.status == 0, result.err
    assert result.out == ""
    assert "Wrote new/b.docx." in result.err
    assert "9 texts in" in result.err
    output = docx.Document(BytesIO((folder / "new/b.docx").read_bytes()))
    assert output.paragraphs[0].text != "A big dog"
    assert output.paragraphs[4].text == "42"
    assert (folder / "a.docx").read_bytes() == content


def test_several_documents_are_written_to_a_folder(
    model: Path, folder: Path, regard: Command
) -> None:
    words = [word for name in SAMPLES for word in ("--file", name)]
    result = regard("translate", model, *words, "--out", "new", "--beam-size", "1")
    assert result.status == 0, result.err
    assert {path.name for path in (folder / "new").iterdir()} == {*SAMPLES}
    for name in SAMPLES:
        assert (folder / "new" / name).read_bytes() != (folder / name).read_bytes()
    again = regard("translate", model, *words, "--out", "new")
    assert again.status == 2
    assert "new/a.txt exists already" in again.err
    again = regard("translate", model, *words, "--out", "new", "--overwrite", "--beam-size", "1")
    assert again.status == 0, again.err


def test_results_have_the_places_of_the_texts(model: Path, folder: Path, regard: Command) -> None:
    arguments = ["--file", "a.po", "--file", "a.odt", "--out", "new", "--format", "jsonl"]
    result = regard("translate", model, *arguments, "--num-hypotheses", "2")
    assert result.status == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    places = [(row["file"], row["unit"], row["number"]) for row in rows]
    assert places[:4] == [("a.po", "line", number) for number in (10, 15, 16, 20)]
    assert {place[:2] for place in places[4:]} == {("a.odt", "paragraph")}
    assert [len(row["alternatives"]) for row in rows] == [1] * len(rows)
    assert rows[0]["source"] == "Open the file"
    assert rows[0]["text"] in (folder / "new/a.po").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "a.txt"], "--file requires --out"),
        (["--out", "x"], "--out: no effect without documents"),
        (["--file-format", "txt"], "--file-format: no effect without documents"),
        (["--overwrite"], "--overwrite: no effect without documents"),
        (["--file", "a.txt", "--out", "a.txt", "--overwrite"], "is the same as a.txt, which is"),
        (["--file", "a.txt", "--out", "x.docx"], "x.docx has the suffix of the format docx"),
        (["--file", "a.txt", "--out", "x.txt", "--scores"], "--scores: no effect with --file"),
        (
            ["--file", "a.txt", "--out", "x.txt", "--num-hypotheses", "2"],
            "--num-hypotheses: no effect with --file without --format jsonl",
        ),
        (["--file", "a.txt", "--file", "sub/a.txt", "--out", "x"], "Two documents are named a.txt"),
        (["--file", "a.txt", "--file", "a.md", "--out", "a.po"], "a.po is a file, but must be a"),
        (["--file", "a.txt", "--file", "a.md", "--out", "."], "is the same as a.txt"),
        (["--file", "a.pdf", "--out", "x.pdf"], "a.pdf has a suffix of no supported format"),
        (["--file", "missing.txt", "--out", "x"], "missing.txt cannot be read: No such file"),
        (["--file", "a.html", "--out", "x", "--markup", "html"], "markup (--markup) has no effect"),
        (["--file", "a.txt", "--out", "x", "--retranslate"], "retranslate (--retranslate) has no"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_errors(
    arguments: list[str], message: str, model: Path, folder: Path, regard: Command
) -> None:
    before = sorted(path.name for path in folder.iterdir())
    result = regard("translate", model, *arguments)
    assert result.status == 2
    assert message in result.err
    assert sorted(path.name for path in folder.iterdir()) == before


def test_all_documents_are_read_before_the_first_is_translated(
    model: Path, folder: Path, regard: Command
) -> None:
    (folder / "bad.docx").write_bytes(b"nonsense")
    (folder / "bad.po").write_bytes(b"nonsense")
    words = [w for name in ("a.txt", "bad.docx", "bad.po") for w in ("--file", name)]
    result = regard("translate", model, *words, "--out", "new")
    assert result.status == 2
    assert "The documents cannot be read, 2 problems:" in result.err
    assert "bad.docx is not a zip file" in result.err
    assert "bad.po has an invalid line 1" in result.err
    assert not (folder / "new").exists()

"""Documents of all formats, through the APIs of LibreTranslate and DeepL."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path, PurePath
from typing import Any

import httpx
import pytest

from documents.samples import SAMPLES, docx_sample
from regard import load
from regard.documents.formats import FORMATS
from regard.pipelines.document_translation import open_document
from regard.pipelines.translator import Translator
from serving_process import ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore::regard.config.RenamedWarning")
DIRECTION = {"source": "en", "target": "de"}
CONTENTS = {name: make() for name, (_, make) in SAMPLES.items()}
DOCX = docx_sample()


@pytest.fixture(scope="module")
def translator(languages: dict[str, Path]) -> Translator:
    """The model of the server, computed in the same way."""
    model = load(languages["ende"], device="cpu", precision="int8")
    assert isinstance(model, Translator)
    return model


def send(server: ServerProcess, name: str, content: bytes, **data: str) -> httpx.Response:
    files = {"file": (name, content)}
    url = f"{server.url}/translate_file"
    return httpx.post(url, files=files, data=DIRECTION | data, timeout=30)


def parts(content: bytes) -> Any:
    """The parts of a package, whose dates may differ; other documents as they are."""
    if not content.startswith(b"PK"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        return {name: package.read(name) for name in package.namelist()}


@pytest.mark.parametrize("name", CONTENTS)
def test_translations_are_those_of_the_command(
    server: ServerProcess, translator: Translator, name: str
) -> None:
    content = CONTENTS[name]
    expected = open_document(content, name).translate(translator).content
    assert expected != content
    response = send(server, f"../../a {name.upper()}", content)
    assert response.status_code == 200, response.text
    url = response.json()["translatedFileUrl"]
    assert url.endswith(PurePath(name).suffix)
    assert parts(httpx.get(url).content) == parts(expected)
    assert httpx.get(url).status_code == 404
    url = f"{server.url}/v2/document"
    data = {"target_lang": "DE", "source_lang": "EN"}
    handle = httpx.post(url, files={"file": (name, content)}, data=data).json()
    url, key = f"{url}/{handle['document_id']}", {"document_key": handle["document_key"]}
    while (answer := httpx.post(f"{url}/result", json=key)).status_code == 503:
        time.sleep(0.02)
    assert parts(answer.content) == parts(expected)


def test_documents_without_texts_and_into_the_same_language(server: ServerProcess) -> None:
    for name, content in (("a.txt", b""), ("a.html", b"<p>12</p>"), ("a.srt", b"")):
        for source in ("en", "auto"):
            response = send(server, name, content, source=source)
            assert response.status_code == 200, response.text
            assert httpx.get(response.json()["translatedFileUrl"]).content == content
    text = b"mira tolu\n"
    url = send(server, "a.txt", text, target="en").json()["translatedFileUrl"]
    assert httpx.get(url).content == text


def zip_bomb() -> bytes:
    """A Word document whose text is a hundred million spaces."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts(DOCX).items():
            is_text = name == "word/document.xml"
            package.writestr(name, b" " * (101 << 20) if is_text else content)
    return buffer.getvalue()


def test_bad_documents_are_refused(server: ServerProcess) -> None:
    entities = b'<!DOCTYPE x [<!ENTITY a "aa">]><xliff version="1.2"/>'
    cases = {
        "a.exe": (b"x", "are not supported. Use .txt"),
        "": (b"x", "file"),
        "truncated.docx": (DOCX[: len(DOCX) // 2], "truncated.docx is not a zip file"),
        "empty.docx": (b"", "is not a zip file"),
        "text.docx": (b"mira tolu", "is not a zip file"),
        "other.odt": (DOCX, "other.odt"),
        "bomb.docx": (zip_bomb(), "a file of its size may contain"),
        "page.xliff": (b"<html/>", "is not an XLIFF document"),
        "entities.xlf": (entities, "document type declaration"),
        "a.srt": (b"no subtitles", "a.srt"),
        "a.po": (b'msgid "a', "a.po"),
        "binary.txt": (bytes(range(256)), "binary.txt"),
    }
    for name, (content, message) in cases.items():
        response = send(server, name, content)
        assert response.status_code == 400, (name, response.text)
        assert message in response.json()["error"]
        files = {"file": (name or "a.", content)}
        data = {"target_lang": "DE"}
        response = httpx.post(f"{server.url}/v2/document", files=files, data=data, timeout=30)
        assert response.status_code == 400, (name, response.text)
        assert {*response.json()} == {"message", "detail"}
    too_long = send(server, "a.txt", b"mira " * 250_000)
    assert (too_long.status_code, "1,000,000" in too_long.text) == (413, True)
    assert send(server, "a.txt", b"a" * 20_000_001).status_code == 413
    assert httpx.get(f"{server.url}/download_file/..%2Fx").status_code == 404
    assert "Traceback" not in server.log


def test_all_formats_are_listed(server: ServerProcess) -> None:
    settings = httpx.get(f"{server.url}/frontend/settings").json()
    suffixes = [suffix for each in FORMATS.values() for suffix in each.suffixes]
    assert settings["supportedFilesFormat"] == suffixes

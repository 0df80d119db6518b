"""Documents are translated by a trained model as their texts are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import regard
from documents.samples import SAMPLES, docx_sample
from documents.translations import texts_of
from regard.data.store import Store
from regard.errors import ConfigError, DataError, StorageError
from regard.pipelines.document_translation import open_document
from toys import run, small_run

SRT = b"1\n00:00:01,000 --> 00:00:02,000\na b c\n\n2\n00:00:03,000 --> 00:00:04,000\n<i>d e</i>\n"


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Any:
    """A model that was briefly trained to reverse letters."""
    out = tmp_path_factory.mktemp("run") / "reversal"
    run(small_run(out, reversal_store, max_steps=60, checkpoint_every=60), reversal_store)
    return regard.load(out, precision="float32")


def test_texts_are_translated_as_without_a_document(translator: Any) -> None:
    document = open_document(b"a b c\r\n\r\n12\nd e", "a.txt", beam_size=2)
    translated = document.translate(translator)
    first, second = translator.translate(["a b c", "d e"], beam_size=2)
    assert translated.content.decode() == f"{first.text}\r\n\r\n12\n{second.text}"
    assert [each.text for each in translated.translations] == [first.text, second.text]


def test_blocks_are_translated_with_their_markup(translator: Any) -> None:
    page = "<p>a <b>b</b> c</p><p title='d e'>d e</p>"
    translated = open_document(page.encode(), "x.html").translate(translator)
    first, second = translator.translate(["<p>a <b>b</b> c</p>", "d e"], markup="html")
    expected = f"{first.text}<p title='{second.text}'>{second.text}</p>"
    assert translated.content.decode() == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_all_formats_are_translated(name: str, translator: Any) -> None:
    format, make = SAMPLES[name]
    content = make()
    seen: list[str] = []
    translated = open_document(content, name, beam_size=1).translate(
        translator, on_translation=lambda translation: seen.append(translation.source)
    )
    assert seen == texts_of(content, format)
    assert translated.content != content
    texts_of(translated.content, format)


def test_workers_translate_blocks_as_this_process_does(translator: Any) -> None:
    content = docx_sample()
    first = open_document(content, "a.docx").translate(translator)
    second = open_document(content, "a.docx").translate(translator, workers=1, window=2)
    assert [each.text for each in second.translations] == [each.text for each in first.translations]


def test_notices_name_the_document_and_the_line(translator: Any) -> None:
    notices: list[str] = []
    long = " ".join("abcdefgh" * 3)
    document = open_document(f"\n{long}".encode(), "a.txt", notice=notices.append)
    document.translate(translator)
    assert notices
    assert notices[0].startswith("a.txt, line 2 has a sentence longer than")
    notices.clear()
    content = docx_sample()
    open_document(content, "a.docx", notice=notices.append, min_confidence=0.999).translate(
        translator
    )
    assert notices[0].startswith("Confidences are not calibrated")
    assert notices[1].startswith("a.docx, paragraph 1 has a sentence longer than")
    assert "confidence" in notices[1]


def test_markup_of_formats_without_their_own(translator: Any) -> None:
    content = b'msgid "a <b>b c</b>"\nmsgstr ""\n'
    translated = open_document(content, "a.po", markup="html", ignore_tags=("b",)).translate(
        translator
    )
    assert b"<b>b c</b>" in translated.content
    with pytest.raises(ConfigError, match=r"markup \(--markup\) has no effect on a.html"):
        open_document(b"a", "a.html", markup="html")


def test_options_that_do_not_fit(translator: Any) -> None:
    with pytest.raises(ConfigError, match=r"ignore_tags .* has no effect on a.txt"):
        open_document(b"a", "a.txt", ignore_tags=("b",))
    with pytest.raises(ConfigError, match='file_format is "pdf"'):
        open_document(b"a", "a", file_format="pdf")  # type: ignore[arg-type]
    document = open_document(b"a", "a.txt", temperature=2.0)
    with pytest.raises(ConfigError, match="temperature"):
        document.translate(translator)


def test_the_language_of_a_page_is_that_of_its_translation(translator: Any) -> None:
    page = b"<html lang='en'><p>a b</p></html>"
    content = open_document(page, "a.html").translate(translator).content
    assert content.startswith(b'<html lang="yy"><p>')


def test_files(translator: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "a.srt", tmp_path / "new" / "b.srt"
    source.write_bytes(SRT)
    translations = translator.translate_file(source, target, beam_size=1)
    first, second = translator.translate(["a b c", "d e"], beam_size=1)
    assert [each.source for each in translations] == ["a b c", "<i>d e</i>"]
    expected = SRT.replace(b"a b c", first.text.encode()).replace(b"d e", second.text.encode())
    assert target.read_bytes() == expected
    assert [path.name for path in target.parent.iterdir()] == ["b.srt"]
    with pytest.raises(StorageError, match=r"b.srt exists already.*overwrite=True"):
        translator.translate_file(source, target)
    translator.translate_file(str(source), str(target), overwrite=True)
    with pytest.raises(StorageError, match="is the file to translate"):
        translator.translate_file(source, source, overwrite=True)
    with pytest.raises(ConfigError, match=r"b.vtt has the suffix of the format vtt, but .*a.srt"):
        translator.translate_file(source, tmp_path / "b.vtt")
    with pytest.raises(StorageError, match=r"missing.srt cannot be read: No such file"):
        translator.translate_file(tmp_path / "missing.srt", tmp_path / "c.srt")
    with pytest.raises(StorageError, match="is a folder, but must be a regular file"):
        translator.translate_file(tmp_path, tmp_path / "c.srt", file_format="srt")
    (tmp_path / "bad.docx").write_bytes(b"nonsense")
    with pytest.raises(DataError, match=r"bad.docx is not a zip file"):
        translator.translate_file(tmp_path / "bad.docx", tmp_path / "c.docx")
    assert not (tmp_path / "c.docx").exists()

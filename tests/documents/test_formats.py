"""What holds for all formats: selection, unchanged documents, and damaged ones."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import get_args, get_type_hints

import pytest

from documents.samples import SAMPLES
from documents.translations import reverse, texts_of, translated, unchanged, uppercase
from mutations import byte_mutations
from regard.config import settings_of
from regard.documents.config import DocumentConfig, DocumentKeywords, FileFormat
from regard.documents.document import ReadOptions
from regard.documents.formats import FORMATS, format_of, read_document, select_format
from regard.errors import ConfigError, DataError, RegardError

CONTENTS = {name: make() for name, (_, make) in SAMPLES.items()}
WITHOUT_TRANSLATIONS = [name for name in SAMPLES if SAMPLES[name][0] not in ("po", "xliff")]


def test_keywords_are_the_fields_of_the_config() -> None:
    fields = {setting.name: setting.type for setting in settings_of(DocumentConfig)}
    assert get_type_hints(DocumentKeywords) == fields


def test_every_format_has_a_name_and_suffixes_of_its_own() -> None:
    assert (*FORMATS,) == get_args(FileFormat)
    suffixes = [suffix for format in FORMATS.values() for suffix in format.suffixes]
    assert len(suffixes) == len({*suffixes})
    assert {SAMPLES[name][0] for name in SAMPLES} == {*FORMATS}


@pytest.mark.parametrize("name", SAMPLES)
def test_formats_are_selected_by_suffix(name: str) -> None:
    assert format_of(f"x.y/{name}") == format_of(name.upper()) == SAMPLES[name][0]
    config = DocumentConfig("txt")
    assert select_format(name, config, has_ignored=False) == "txt"


def test_options_without_effect_and_unknown_suffixes_are_refused() -> None:
    config = DocumentConfig()
    with pytest.raises(ConfigError, match=r"a.pdf has a suffix of no supported .*\.txt.*\.xliff"):
        select_format("a.pdf", config, has_ignored=False)
    with pytest.raises(ConfigError, match=r"ignore_tags .* has no effect on a.docx"):
        select_format("a.docx", config, has_ignored=True)
    with pytest.raises(ConfigError, match=r"retranslate .* has no effect on a.txt"):
        select_format("a.txt", DocumentConfig(retranslate=True), has_ignored=False)
    assert select_format("a.po", DocumentConfig(retranslate=True), has_ignored=False) == "po"
    assert select_format("a.md", config, has_ignored=True) == "md"


@pytest.mark.parametrize("name", WITHOUT_TRANSLATIONS)
def test_a_document_whose_texts_do_not_change_keeps_every_byte(name: str) -> None:
    assert texts_of(CONTENTS[name], SAMPLES[name][0])
    assert translated(CONTENTS[name], SAMPLES[name][0], unchanged) == CONTENTS[name]


@pytest.mark.parametrize("name", SAMPLES)
def test_translations_are_texts_of_the_translated_document(name: str) -> None:
    format = SAMPLES[name][0]
    output = translated(CONTENTS[name], format)
    if name in WITHOUT_TRANSLATIONS:
        expected = " ".join(texts_of(CONTENTS[name], format)).upper().split()
        assert " ".join(texts_of(output, format)).upper().split() == expected
    else:
        assert texts_of(output, format) == []
    assert translated(output, format, unchanged) == output


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_documents_are_refused_or_translated(name: str) -> None:
    format, errors = SAMPLES[name][0], []
    for content in byte_mutations(CONTENTS[name], 40 if name in ("a.docx", "a.odt") else 200):
        try:
            output = translated(content, format, reverse, "de")
        except RegardError as error:
            errors.append(str(error))
        else:
            texts_of(output, format)
    assert len(errors) >= 3
    assert all(error.startswith("a file ") for error in errors)


@pytest.mark.parametrize("format", FORMATS)
def test_other_documents_are_refused_or_have_texts(format: FileFormat) -> None:
    for name, content in {**CONTENTS, "empty": b"", "blank": b"\n \n"}.items():
        with suppress(DataError):
            translated(content, format, uppercase)
        is_any_text = format in ("html", "md", "txt") or (format == "srt" and name == "a.vtt")
        if not is_any_text and name in SAMPLES and format != SAMPLES[name][0]:
            with pytest.raises(DataError, match="a file"):
                texts_of(content, format)


@pytest.mark.parametrize("format", ["txt", "html", "md", "srt", "po"])
def test_empty_documents_stay_empty(format: FileFormat) -> None:
    assert translated(b"", format) == b""
    assert translated(b"\n \n", format) == b"\n \n"


def test_large_documents_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMATS, "txt", FORMATS["txt"]._replace(max_size=3))
    with pytest.raises(DataError, match=r"x.txt has 4 bytes, .* 3 .* from standard input"):
        read_document(b"abcd", "txt", ReadOptions("x.txt"))


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.xlf"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lxml", None)
    with pytest.raises(ConfigError, match=r"require the package lxml.*regard\[documents\]"):
        texts_of(CONTENTS[name], SAMPLES[name][0])
    assert texts_of(CONTENTS["a.html"], "html")

"""Translation of documents: bytes in, bytes out, and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Unpack

from regard.config import build
from regard.data.model_text import ModelText
from regard.decoding.text_config import IGNORED_TAGS
from regard.documents.config import DocumentConfig, DocumentKeywords, FileFormat
from regard.documents.document import Document, ReadOptions
from regard.documents.formats import FORMATS, format_of, read_document, select_format
from regard.errors import ConfigError, StorageError
from regard.files import atomic_file, explain_os_errors, is_stream, locked_output
from regard.pipelines.text_search import TranslateTextKeywords, Translation, unchanged
from regard.pipelines.text_stream import StreamKeywords
from regard.pipelines.translator import Translator
from regard.regular_files import read_regular_file


class TranslateDocumentKeywords(TranslateTextKeywords, DocumentKeywords, total=False):
    """Settings of documents, of a search, and of how texts are processed."""


class TranslatedDocument(NamedTuple):
    """The content of a translated document, and the translations of its texts, in order."""

    content: bytes
    translations: list[Translation]


@dataclass(frozen=True)
class OpenDocument:
    """A document that has been read; it can be translated once."""

    name: str
    format: FileFormat
    document: Document
    keywords: TranslateTextKeywords

    def translate(
        self,
        translator: Translator,
        *,
        prefix: str = "",
        on_translation: Callable[[Translation], object] = unchanged,
        **stream: Unpack[StreamKeywords],
    ) -> TranslatedDocument:
        """Translate all texts; `on_translation` is called with each translation, in order."""
        texts = [text.text for text in self.document.texts]
        keywords = self._keywords(stream)
        rendered = translator.translate_rendered(texts, unchanged, prefix=prefix, **keywords)
        translations = []
        for translation in rendered:
            translations.append(translation)
            on_translation(translation)
        language = _target_language(translator.text, self.keywords.get("target_lang"))
        content = self.document.write([each.text for each in translations], language)
        return TranslatedDocument(content, translations)

    def _keywords(self, stream: StreamKeywords) -> TranslateTextKeywords:
        """The keyword arguments of the stream of texts, whose notices name the document."""
        keywords = TranslateTextKeywords(**{**self.keywords, **stream})
        keywords["line_numbers"] = [text.number for text in self.document.texts]
        keywords["unit"] = f"{self.name}, {self.document.unit}"
        if self.document.has_markup:
            keywords["markup"] = "xml"  # its blocks have been parsed; any language will do
        return keywords


def open_document(
    content: bytes, name: str, **keywords: Unpack[TranslateDocumentKeywords]
) -> OpenDocument:
    """Read a document, whose format is that of its name unless `file_format` is given."""
    names = DocumentKeywords.__annotations__
    config = build(DocumentConfig, {k: v for k, v in keywords.items() if k in names})
    rest = TranslateTextKeywords(**{k: v for k, v in keywords.items() if k not in names})  # type: ignore[typeddict-item]
    markup, ignored = rest.get("markup"), rest.get("ignore_tags")
    format = select_format(name, config, has_ignored=bool(ignored) and markup is None)
    options = ReadOptions(name, (*(ignored or IGNORED_TAGS),), config.retranslate)
    document = read_document(content, format, options)
    if document.has_markup and markup is not None:
        raise ConfigError(
            f"markup (--markup) has no effect on {name}: the format {format} has markup of its "
            "own. Leave it out."
        )
    return OpenDocument(name, format, document, rest)


def open_file(path: Path, **keywords: Unpack[TranslateDocumentKeywords]) -> OpenDocument:
    """Read a document from a regular file."""
    config = DocumentConfig(keywords.get("file_format"))
    format = select_format(str(path), config, has_ignored=False)
    content = read_regular_file(path, FORMATS[format].max_size)
    return open_document(content, str(path), **keywords)


def refuse_other_format(target: Path, document: OpenDocument) -> None:
    """Raise an error for an output with the suffix of another format."""
    format = format_of(target.name)
    if format not in (None, document.format):
        raise ConfigError(
            f"{target} has the suffix of the format {format}, but {document.name} is translated "
            f"in its own format {document.format}. Choose another name."
        )


def write_document(target: Path, content: bytes) -> None:
    """Write a translated document atomically."""
    with explain_os_errors(target), atomic_file(target) as temporary:
        temporary.write_bytes(content)


def translate_file(
    translator: Translator,
    source: Path,
    target: Path,
    *,
    prefix: str,
    overwrite: bool,
    **keywords: Unpack[TranslateDocumentKeywords],
) -> list[Translation]:
    """Translate a file into another one; returns the translations of its texts."""
    document = open_file(source, **keywords)
    refuse_other_format(target, document)
    if is_stream(target):
        raise ConfigError(f"{target} is not a file. Choose another path for the translation.")
    if target.exists() and target.samefile(source):
        raise StorageError(f"{target} is the file to translate. Choose another path.")
    if target.exists() and not overwrite:
        raise StorageError(f"{target} exists already. Choose another path, or pass overwrite=True.")
    with locked_output(target):
        translated = document.translate(translator, prefix=prefix)
        write_document(target, translated.content)
    return translated.translations


def _target_language(text: ModelText, selected: str | None) -> str | None:
    """The language of translations, if it is known."""
    targets = {each.target for each in text.directions}
    return selected or text.languages["target"] or (targets.pop() if len(targets) == 1 else None)

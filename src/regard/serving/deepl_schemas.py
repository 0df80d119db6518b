"""Requests and answers of the API of DeepL."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel


class TranslateQuery(BaseModel):
    """Texts to translate; settings of DeepL that have no equivalent are ignored."""

    text: list[str]
    target_lang: str
    source_lang: str | None = None
    split_sentences: str = "1"
    tag_handling: str | None = None
    ignore_tags: list[str] = []
    glossary_id: str | None = None
    glossary_ids: list[str] = []
    formality: str = "default"


class TranslatedText(BaseModel):
    """The translation of a text."""

    detected_source_language: str
    text: str
    billed_characters: int


class Translations(BaseModel):
    """The translations of all texts."""

    translations: list[TranslatedText]


class Language(BaseModel):
    """A language; formality is not supported."""

    language: str
    name: str
    supports_formality: bool | None = None


class Usage(BaseModel):
    """Characters of the current day, and their limit."""

    character_count: int
    character_limit: int


class Failed(BaseModel):
    """An error."""

    message: str
    detail: str


class DocumentHandle(BaseModel):
    """How to ask for a document."""

    document_id: str
    document_key: str


class DocumentKey(BaseModel):
    """The key of a document."""

    document_key: str


class DocumentStatus(BaseModel):
    """How far the translation of a document is."""

    document_id: str
    status: str
    billed_characters: int | None = None
    error_message: str | None = None


class DocumentQuery(BaseModel):
    """A document to translate."""

    file: bytes
    target_lang: str
    source_lang: str | None = None
    filename: str | None = None
    glossary_id: str | None = None
    output_format: str | None = None


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failed} for status in (400, 403, 404, 408, 413, 429, 456, 500)
}

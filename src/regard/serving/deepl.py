"""The API of DeepL, version 2: translation, languages and usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request

from regard.data.directions import Direction
from regard.data.glossary import Glossary
from regard.decoding.text_config import IGNORED_TAGS
from regard.serving.api_errors import ApiError
from regard.serving.deepl_glossaries import owner_of
from regard.serving.deepl_schemas import ERRORS, Language, TranslateQuery, Translations, Usage
from regard.serving.languages import language_name, matching_language
from regard.serving.parameters import FORM, JSON, Parameters, body_description
from regard.serving.service import Service, context_of, service_of
from regard.text.language_codes import base_language

_UNLIMITED = 1_000_000_000_000
_MAX_GLOSSARIES = 5
# The client refuses EN and PT as targets, so their variants are listed.
_VARIANTS = {
    "en": {"EN-US": "English (American)", "EN-GB": "English (British)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "zh": {"ZH": "Chinese", "ZH-HANS": "Chinese (simplified)"},
}
router = APIRouter(prefix="/v2", responses=ERRORS, tags=["DeepL"])


@dataclass(frozen=True)
class TextOptions:
    """How texts are translated, for texts and documents."""

    source: str | None
    target: str
    keywords: tuple[tuple[str, Any], ...]
    glossary_ids: tuple[str, ...]

    @staticmethod
    def of(given: Parameters) -> TextOptions:
        """From the parameters of a request; raises an ApiError."""
        target = given.text("target_lang")
        if not target:
            raise ApiError(400, "Value for 'target_lang' not supported.", "target_lang")
        ids = tuple(_listed(given, "glossary_ids")) or tuple(_listed(given, "glossary_id"))
        if len(ids) > _MAX_GLOSSARIES:
            raise ApiError(400, f"At most {_MAX_GLOSSARIES} glossaries can be combined.")
        source = given.text("source_lang") or None
        if ids and source is None:
            raise ApiError(400, "Use of a glossary requires the source_lang parameter.")
        formality = given.text("formality") or "default"
        if formality in ("more", "less"):
            raise ApiError(400, "'formality' is not supported for given 'target_lang'.")
        if formality not in ("default", "prefer_more", "prefer_less"):
            raise ApiError(400, "Value for 'formality' not supported.", "formality")
        return TextOptions(source, target, _markup_keywords(given), ids)

    def direction(self, service: Service, text: str) -> Direction:
        """The direction of a text; its source language is detected unless it is given."""
        registry = service.registry
        if matching_language(self.target, registry.targets) is None:
            raise ApiError(400, "Value for 'target_lang' not supported.", "target_lang")
        source = self.source or registry.detect(text, self.target).language
        direction = registry.find_direction(source, self.target)
        if direction is None:
            if self.source and matching_language(source, registry.sources) is None:
                raise ApiError(400, "Value for 'source_lang' not supported.", "source_lang")
            raise ApiError(400, f"{source.upper()} to {self.target.upper()} is not supported.")
        return direction

    def glossary(self, service: Service, owner: str, direction: Direction) -> Glossary | None:
        """The terms of the glossaries for a direction."""
        if not self.glossary_ids:
            return None
        pair = base_language(direction.source), base_language(direction.target)
        return service.glossaries.compiled(self.glossary_ids, owner, pair)


def _markup_keywords(given: Parameters) -> tuple[tuple[str, Any], ...]:
    handling = given.text("tag_handling")
    if not handling:
        return ()
    if handling not in ("xml", "html"):
        raise ApiError(400, "Value for 'tag_handling' not supported.", "tag_handling")
    ignored = tuple(sorted(set(_listed(given, "ignore_tags"))))
    if handling == "html":
        ignored = (*IGNORED_TAGS, *ignored)
    return ("ignore_tags", ignored), ("markup", handling)


def _listed(given: Parameters, name: str) -> list[str]:
    """A list, or in forms several values or one with commas."""
    return [
        part.strip() for value in given.texts(name) for part in value.split(",") if part.strip()
    ]


@router.post(
    "/translate",
    response_model=Translations,
    openapi_extra=body_description(TranslateQuery, JSON, FORM),
)
async def translate(request: Request) -> Any:
    """Translate texts."""
    service, given = service_of(request), await Parameters.of(request)
    options, texts = TextOptions.of(given), given.texts("text")
    if not texts:
        raise ApiError(400, "Parameter 'text' not specified.", "text")
    split = str(given.value("split_sentences") or "1")
    if split not in ("0", "1", "nonewlines"):
        raise ApiError(400, "Value for 'split_sentences' not supported.", "split_sentences")
    service.count(request, texts)
    owner = owner_of(context_of(request))
    key = (options, (*texts,), split, owner)
    translated = await service.coalescing.run(
        key, lambda: _translate(request, options, texts, split)
    )
    return {
        "translations": [
            {"detected_source_language": source, "text": text, "billed_characters": len(original)}
            for original, (source, text) in zip(texts, translated, strict=True)
        ]
    }


async def _translate(
    request: Request, options: TextOptions, texts: Sequence[str], split: str
) -> list[tuple[str, str]]:
    """The source language and the translation of each text."""
    service = service_of(request)
    owner = owner_of(context_of(request))
    if split != "1" and not options.keywords:  # a line break does not end a sentence
        texts = [" ".join(text.split("\n")) for text in texts]
    directions = [options.direction(service, text) for text in texts]
    results: dict[int, tuple[str, str]] = {}
    for direction in dict.fromkeys(directions):
        numbers = [n for n, each in enumerate(directions) if each == direction]
        glossary = options.glossary(service, owner, direction)
        translated = await service.translate_direction(
            request, direction, [texts[n] for n in numbers], dict(options.keywords), glossary
        )
        source = base_language(direction.source).upper()
        pairs = [(source, each.ranked[0].text) for each in translated]
        results.update(zip(numbers, pairs, strict=True))
    return [results[n] for n in range(len(texts))]


@router.get("/languages", response_model=list[Language], response_model_exclude_none=True)
async def languages(request: Request) -> Any:
    """The source languages, or with `type=target` the target languages."""
    registry = service_of(request).registry
    kind = request.query_params.get("type")
    if kind is None and await request.body():  # the client sends a form with GET
        kind = (await Parameters.of(request)).text("type")
    if kind not in (None, "source", "target"):
        raise ApiError(400, "Value for 'type' not supported.", "type")
    if kind != "target":
        codes = dict.fromkeys(base_language(code) for code in registry.sources)
        return [{"language": code.upper(), "name": language_name(code)} for code in codes]
    listed: dict[str, str] = {}
    for code in registry.targets:
        listed |= _VARIANTS.get(base_language(code), {code.upper(): language_name(code)})
    return [
        {"language": code, "name": name, "supports_formality": False}
        for code, name in listed.items()
    ]


@router.get("/usage", response_model=Usage)
async def usage(request: Request) -> Any:
    """The characters of the current day, and their limit."""
    key = context_of(request).key
    if key is None:
        return {"character_count": 0, "character_limit": _UNLIMITED}
    limit = key.key.characters_per_day or _UNLIMITED
    return {"character_count": key.characters, "character_limit": limit}

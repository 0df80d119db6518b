"""The glossaries of DeepL: v2 with one pair of languages each, and v3 with several."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from regard.serving.api_errors import ApiError
from regard.serving.deepl_schemas import ERRORS
from regard.serving.gate import RequestContext
from regard.serving.glossaries import Pair, StoredGlossary, format_entries, parse_entries
from regard.serving.parameters import FORM, JSON, Parameters, body_description
from regard.serving.service import context_of, service_of
from regard.text.language_codes import base_language

_MAX_NAME = 1024
_MAX_DICTIONARIES = 100
router = APIRouter(responses=ERRORS, tags=["DeepL"])


class GlossaryQuery(BaseModel):
    """A glossary to create."""

    name: str
    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


class Dictionary(BaseModel):
    """The entries for a pair of languages."""

    source_lang: str
    target_lang: str
    entries: str
    entries_format: str = "tsv"


class MultilingualQuery(BaseModel):
    """A glossary with several dictionaries."""

    name: str
    dictionaries: list[Dictionary]


class GlossaryInfo(BaseModel):
    """A glossary of v2."""

    glossary_id: str
    name: str
    ready: bool
    source_lang: str
    target_lang: str
    creation_time: str
    entry_count: int


class GlossaryList(BaseModel):
    """All glossaries of v2."""

    glossaries: list[GlossaryInfo]


class DictionaryInfo(BaseModel):
    """A dictionary of v3."""

    source_lang: str
    target_lang: str
    entry_count: int


class MultilingualInfo(BaseModel):
    """A glossary of v3."""

    glossary_id: str
    name: str
    dictionaries: list[DictionaryInfo]
    creation_time: str


class MultilingualList(BaseModel):
    """All glossaries of v3."""

    glossaries: list[MultilingualInfo]


class Entries(BaseModel):
    """The entries of dictionaries."""

    dictionaries: list[Dictionary]


class LanguagePair(BaseModel):
    """A pair of languages."""

    source_lang: str
    target_lang: str


class LanguagePairs(BaseModel):
    """The pairs of languages for which glossaries are possible."""

    supported_languages: list[LanguagePair]


def owner_of(context: RequestContext) -> str:
    """Whose glossaries and documents a request may use."""
    return context.key.key.name if context.key else ""


@router.get("/v2/glossary-language-pairs", response_model=LanguagePairs)
async def language_pairs(request: Request) -> Any:
    """The pairs of languages for which glossaries are possible."""
    directions = service_of(request).registry.directions
    pairs = {(base_language(each.source), base_language(each.target)) for each in directions}
    listed = [{"source_lang": source, "target_lang": target} for source, target in sorted(pairs)]
    return {"supported_languages": listed}


@router.post(
    "/v2/glossaries",
    response_model=GlossaryInfo,
    status_code=201,
    openapi_extra=body_description(GlossaryQuery, JSON, FORM),
)
async def create(request: Request) -> Any:
    """Create a glossary for a pair of languages."""
    given = await Parameters.of(request)
    pair = _pair(request, given.text("source_lang"), given.text("target_lang"))
    entries = parse_entries(given.text("entries") or "", given.text("entries_format") or "tsv")
    owner = owner_of(context_of(request))
    glossaries = service_of(request).glossaries
    name = _name(given.text("name"))
    return _info(await asyncio.to_thread(glossaries.create, name, owner, {pair: entries}))


@router.get("/v2/glossaries", response_model=GlossaryList)
async def listed(request: Request) -> Any:
    """All glossaries."""
    glossaries = service_of(request).glossaries.listed(owner_of(context_of(request)))
    return {"glossaries": [_info(each) for each in glossaries if each.dictionaries]}


@router.get("/v2/glossaries/{glossary_id}", response_model=GlossaryInfo)
async def get(request: Request, glossary_id: str) -> Any:
    """A glossary."""
    return _info(_get(request, glossary_id))


@router.get(
    "/v2/glossaries/{glossary_id}/entries",
    response_class=Response,
    responses={200: {"content": {"text/tab-separated-values": {}}}},
)
async def entries(request: Request, glossary_id: str) -> Response:
    """The entries of a glossary as TSV."""
    _, terms = _first(_get(request, glossary_id))
    return Response(format_entries(terms), media_type="text/tab-separated-values")


@router.delete("/v2/glossaries/{glossary_id}", status_code=204, response_class=Response)
@router.delete("/v3/glossaries/{glossary_id}", status_code=204, response_class=Response)
async def delete(request: Request, glossary_id: str) -> Response:
    """Delete a glossary."""
    service_of(request).glossaries.delete(glossary_id, owner_of(context_of(request)))
    return Response(status_code=204)


@router.post(
    "/v3/glossaries",
    response_model=MultilingualInfo,
    status_code=201,
    openapi_extra=body_description(MultilingualQuery, JSON),
)
async def create_multilingual(request: Request) -> Any:
    """Create a glossary with dictionaries for several pairs of languages."""
    given = await Parameters.of(request)
    dictionaries = _dictionaries(request, given.value("dictionaries"))
    owner, name = owner_of(context_of(request)), _name(given.text("name"))
    create = service_of(request).glossaries.create
    return _multilingual(await asyncio.to_thread(create, name, owner, dictionaries))


@router.get("/v3/glossaries", response_model=MultilingualList)
async def listed_multilingual(request: Request) -> Any:
    """All glossaries."""
    glossaries = service_of(request).glossaries.listed(owner_of(context_of(request)))
    return {"glossaries": [*map(_multilingual, glossaries)]}


@router.get("/v3/glossaries/{glossary_id}", response_model=MultilingualInfo)
async def get_multilingual(request: Request, glossary_id: str) -> Any:
    """A glossary."""
    return _multilingual(_get(request, glossary_id))


@router.get("/v3/glossaries/{glossary_id}/entries", response_model=Entries)
async def multilingual_entries(
    request: Request, glossary_id: str, source_lang: str, target_lang: str
) -> Any:
    """The entries for a pair of languages."""
    glossary, pair = _get(request, glossary_id), _codes(source_lang, target_lang)
    if pair not in glossary.dictionaries:
        raise ApiError(404, "Dictionary not found")
    text = format_entries(glossary.dictionaries[pair])
    names = {"source_lang": pair[0], "target_lang": pair[1]}
    return {"dictionaries": [{**names, "entries": text, "entries_format": "tsv"}]}


@router.patch(
    "/v3/glossaries/{glossary_id}",
    response_model=MultilingualInfo,
    openapi_extra=body_description(MultilingualQuery, JSON),
)
async def update(request: Request, glossary_id: str) -> Any:
    """Rename a glossary, or add entries to its dictionaries."""
    glossary, given = _get(request, glossary_id), await Parameters.of(request)
    if given.value("name") is not None:
        glossary = replace(glossary, name=_name(given.text("name")))
    if given.value("dictionaries") is not None:
        dictionaries = {**glossary.dictionaries}
        for pair, terms in _dictionaries(request, given.value("dictionaries")).items():
            dictionaries[pair] = {**dictionaries.get(pair, {}), **terms}
        glossary = replace(glossary, dictionaries=dictionaries)
    write = service_of(request).glossaries.write
    return _multilingual(await asyncio.to_thread(write, glossary))


@router.put(
    "/v3/glossaries/{glossary_id}/dictionaries",
    response_model=DictionaryInfo,
    openapi_extra=body_description(Dictionary, JSON),
)
async def replace_dictionary(request: Request, glossary_id: str) -> Any:
    """Replace the dictionary of a pair of languages."""
    glossary, given = _get(request, glossary_id), await Parameters.of(request)
    [(pair, terms)] = _dictionaries(request, [dict(given.values)]).items()
    changed = replace(glossary, dictionaries={**glossary.dictionaries, pair: terms})
    await asyncio.to_thread(service_of(request).glossaries.write, changed)
    return _dictionary(pair, terms)


@router.delete(
    "/v3/glossaries/{glossary_id}/dictionaries", status_code=204, response_class=Response
)
async def delete_dictionary(
    request: Request, glossary_id: str, source_lang: str, target_lang: str
) -> Response:
    """Delete the dictionary of a pair of languages."""
    glossary, pair = _get(request, glossary_id), _codes(source_lang, target_lang)
    if pair not in glossary.dictionaries:
        raise ApiError(404, "Dictionary not found")
    owner = owner_of(context_of(request))
    service_of(request).glossaries.delete_dictionary(glossary_id, owner, pair)
    return Response(status_code=204)


def _get(request: Request, glossary_id: str) -> StoredGlossary:
    return service_of(request).glossaries.get(glossary_id, owner_of(context_of(request)))


def _name(name: str | None) -> str:
    if not name or not name.strip() or len(name) > _MAX_NAME:
        raise ApiError(400, f"name must have 1 to {_MAX_NAME} characters", "name")
    return name


def _codes(source: str, target: str) -> Pair:
    return base_language(source), base_language(target)


def _pair(request: Request, source: Any, target: Any) -> Pair:
    """A pair of languages that is translated."""
    if not isinstance(source, str) or not isinstance(target, str):
        raise ApiError(400, "source_lang and target_lang are required", "source_lang")
    directions = service_of(request).registry.directions
    pair = _codes(source, target)
    if pair not in {_codes(*direction) for direction in directions}:
        raise ApiError(400, "Unsupported glossary source and target language pair")
    return pair


def _dictionaries(request: Request, value: Any) -> dict[Pair, dict[str, str]]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_DICTIONARIES:
        message = f"dictionaries must be a list of 1 to {_MAX_DICTIONARIES} objects"
        raise ApiError(400, message, "dictionaries")
    dictionaries: dict[Pair, dict[str, str]] = {}
    for each in value:
        if not isinstance(each, dict) or not isinstance(each.get("entries"), str):
            raise ApiError(400, "Each dictionary is an object with entries", "dictionaries")
        pair = _pair(request, each.get("source_lang"), each.get("target_lang"))
        dictionaries[pair] = parse_entries(each["entries"], each.get("entries_format") or "tsv")
    return dictionaries


def _first(glossary: StoredGlossary) -> tuple[Pair, dict[str, str]]:
    """The dictionary of a glossary in v2, which has one."""
    if not glossary.dictionaries:
        raise ApiError(404, "Glossary not found", "It has no dictionaries.")
    return next(iter(glossary.dictionaries.items()))


def _info(glossary: StoredGlossary) -> dict[str, Any]:
    pair, terms = _first(glossary)
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        "creation_time": glossary.created,
        **_dictionary(pair, terms),
    }


def _dictionary(pair: Pair, terms: dict[str, str]) -> dict[str, Any]:
    return {"source_lang": pair[0], "target_lang": pair[1], "entry_count": len(terms)}


def _multilingual(glossary: StoredGlossary) -> dict[str, Any]:
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [_dictionary(*item) for item in glossary.dictionaries.items()],
        "creation_time": glossary.created,
    }

"""The API of LibreTranslate."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from regard.data.directions import Direction
from regard.pipelines.segments import TranslatedText
from regard.serving.api_errors import ApiError
from regard.serving.languages import Detected, language_name, matching_language
from regard.serving.parameters import FORM, JSON, Parameters, body_description
from regard.serving.service import Service, service_of

_BEAM_SIZE = 5  # at least, as by default
_FORMATS = ("text", "html")


class TranslateQuery(BaseModel):
    """A request to translate; `q` may be a list in JSON."""

    q: str | list[str]
    source: str
    target: str
    format: str = "text"
    alternatives: int = 0
    api_key: str = ""


class DetectedLanguage(BaseModel):
    """The language of a text, and the confidence in percent."""

    confidence: float
    language: str


class Translated(BaseModel):
    """The translation of `q`; lists if it is a list."""

    translatedText: str | list[str]  # noqa: N815  # the name in the API
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A source language and the languages that it is translated into."""

    code: str
    name: str
    targets: list[str]


class Failed(BaseModel):
    """An error."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failed} for status in (400, 403, 404, 408, 413, 429, 500)
}
router = APIRouter(responses=ERRORS, tags=["LibreTranslate"])


@router.post(
    "/translate",
    response_model=Translated,
    response_model_exclude_none=True,
    openapi_extra=body_description(TranslateQuery, JSON, FORM),
)
async def translate(request: Request) -> Any:
    """Translate a text or a list of texts; parameters may also be in the query string."""
    service, given = service_of(request), await Parameters.of(request)
    service.authorize(given.text("api_key"), request)
    texts, is_list = _texts(given)
    source, target = required(given, "source"), required(given, "target")
    alternatives = _alternatives(given, service)
    _check_limits(texts, service)
    detected = [_detect(service, text, source, target) for text in texts]
    directions = [find_direction(service, each.language, target) for each in detected]
    form = given.text("format") or "text"
    if form not in _FORMATS:
        raise ApiError(400, f"{form} format is not supported")
    service.count(request, texts)
    keywords: dict[str, Any] = {"markup": "html"} if form == "html" else {}
    if alternatives and form == "text":
        count = alternatives + 1
        keywords |= {"num_hypotheses": count, "beam_size": max(_BEAM_SIZE, count)}
    results = await _translate(request, texts, directions, keywords)
    best = [best for best, _ in results]
    others = [others for _, others in results]
    answer: dict[str, Any] = {"translatedText": best if is_list else best[0]}
    if source.lower() == "auto":
        languages = [_detected(each) for each in detected]
        answer["detectedLanguage"] = languages if is_list else languages[0]
    if alternatives:
        answer["alternatives"] = others if is_list else others[0]
    return answer


async def _translate(
    request: Request,
    texts: list[str],
    directions: list[Direction | None],
    keywords: dict[str, Any],
) -> list[tuple[str, list[str]]]:
    """Each text translated, and its alternatives; those of one direction together."""
    service = service_of(request)
    results: dict[int, tuple[str, list[str]]] = {}
    for direction in dict.fromkeys(directions):
        numbers = [n for n, each in enumerate(directions) if each == direction]
        if direction is None:  # into the same language
            results.update((n, (texts[n], [])) for n in numbers)
            continue
        translated = await service.translate_direction(
            request, direction, [texts[n] for n in numbers], keywords
        )
        results.update(zip(numbers, map(_with_alternatives, translated), strict=True))
    return [results[n] for n in range(len(texts))]


def _with_alternatives(translated: TranslatedText) -> tuple[str, list[str]]:
    best, *others = [each.text for each in translated.ranked]
    return best, [text for text in dict.fromkeys(others) if text != best]


def _texts(given: Parameters) -> tuple[list[str], bool]:
    """The texts, and whether they are a list; forms and queries lose CR and the final newline."""
    value = given.value("q")
    is_list = isinstance(value, list)
    if not value:
        raise ApiError(400, "Invalid request: missing q parameter", "q")
    texts = given.texts("q") if is_list else [given.text("q") or ""]
    if not given.is_json:
        texts = [text.replace("\r", "").removesuffix("\n") for text in texts]
    return texts, is_list


def required(given: Parameters, name: str) -> str:
    """A parameter that must be given."""
    value = given.text(name)
    if not value:
        raise ApiError(400, f"Invalid request: missing {name} parameter", name)
    return value


def _alternatives(given: Parameters, service: Service) -> int:
    value = given.value("alternatives")
    if value is None or value == "":
        return 0
    try:
        count = max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        raise ApiError(
            400, "Invalid request: alternatives parameter is not a number", "alternatives"
        ) from None
    limit = service.limits.max_alternatives - 1
    if count > limit:
        raise ApiError(400, f"Invalid request: alternatives parameter must be <= {limit}")
    return count


def _check_limits(texts: list[str], service: Service) -> None:
    """Raise LibreTranslate's errors for too many texts or characters."""
    for size, limit in (
        (len(texts), service.limits.max_texts),
        (sum(map(len, texts)), service.limits.max_characters),
    ):
        if size > limit:
            message = f"Invalid request: request ({size}) exceeds text limit ({limit})"
            raise ApiError(400, message)


def _detect(service: Service, text: str, source: str, target: str) -> Detected:
    """The source language of a text: as given, or detected."""
    if source.lower() != "auto":
        return Detected(source, 1.0)
    if not service.registry.directions:
        raise ApiError(400, f"{target} is not supported")
    return service.registry.detect(text)


def find_direction(service: Service, source: str, target: str) -> Direction | None:
    """The direction of two codes; None if they are the same language."""
    registry = service.registry
    languages = [*registry.sources, *registry.targets]
    known_source = matching_language(source, languages)
    known_target = matching_language(target, languages)
    for code, known in ((source, known_source), (target, known_target)):
        if known is None:
            raise ApiError(400, f"{code} is not supported")
    if known_source == known_target:
        return None
    direction = registry.find_direction(source, target)
    if direction is None:
        raise ApiError(400, f"{source} ({language_name(source)}) to {target} is not supported")
    return direction


def _detected(detected: Detected) -> dict[str, Any]:
    return {"confidence": round(100 * detected.probability, 1), "language": detected.language}


@router.get("/languages", response_model=list[Language])
@router.post("/languages", response_model=list[Language])
async def languages(request: Request) -> Any:
    """The languages; POST, as sent by older clients, is the same."""
    registry = service_of(request).registry
    targets: dict[str, list[str]] = {}
    for direction in registry.directions:
        targets.setdefault(direction.source, []).append(direction.target)
    for target in registry.targets:
        targets.setdefault(target, [])
    return [
        {"code": code, "name": language_name(code), "targets": listed}
        for code, listed in targets.items()
    ]


class DetectQuery(BaseModel):
    """A text whose language is asked for."""

    q: str
    api_key: str = ""


@router.post(
    "/detect",
    response_model=list[DetectedLanguage],
    openapi_extra=body_description(DetectQuery, JSON, FORM),
)
async def detect(request: Request) -> Any:
    """The language of a text, among those that are translated."""
    service, given = service_of(request), await Parameters.of(request)
    service.authorize(given.text("api_key"), request)
    text = required(given, "q")
    _check_limits([text], service)
    service.count(request, [text])
    return [_detected(service.registry.detect(text))]


@router.get("/frontend/settings", response_model=dict[str, Any])
async def settings(request: Request) -> Any:
    """Settings for web pages of LibreTranslate."""
    service = service_of(request)
    pair = next(iter(service.registry.directions), None)
    names = {
        side: {"code": code, "name": language_name(code)}
        for side, code in (pair._asdict() if pair else {}).items()
    }
    return {
        "apiKeys": service.keys is not None,
        "keyRequired": service.keys is not None,
        "charLimit": service.limits.max_characters,
        "frontendTimeout": 500,
        "language": names,
        "suggestions": False,
        "filesTranslation": True,
        "supportedFilesFormat": [*service.document_formats],
    }


@router.get("/spec", response_model=dict[str, Any])
async def spec(request: Request) -> Any:
    """The OpenAPI description of this server."""
    return JSONResponse(request.app.openapi())

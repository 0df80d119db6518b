"""The translation of files in the API of LibreTranslate."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel

from regard.pipelines.markup import Markup
from regard.serving.api_errors import ApiError
from regard.serving.documents import TextTranslation
from regard.serving.libretranslate import ERRORS, find_direction, required
from regard.serving.parameters import MULTIPART, Parameters, body_description
from regard.serving.service import service_of

router = APIRouter(responses=ERRORS, tags=["LibreTranslate"])


class FileQuery(BaseModel):
    """A file to translate."""

    file: bytes
    source: str
    target: str
    api_key: str = ""


class TranslatedFile(BaseModel):
    """Where the translated file is."""

    translatedFileUrl: str  # noqa: N815  # the name in the API


@router.post(
    "/translate_file",
    response_model=TranslatedFile,
    openapi_extra=body_description(FileQuery, MULTIPART),
)
async def translate_file(request: Request) -> Any:
    """Translate a file."""
    service, given = service_of(request), await Parameters.of(request)
    service.authorize(given.text("api_key"), request)
    file = given.file("file")
    source, target = required(given, "source"), required(given, "target")
    document = await service.documents.read(file.filename or "", file)
    service.count_document(request, document.characters)
    translation = _translation(request, source, target, document.sample)
    identifier, key = service.documents.start(document, translation)
    state = await service.documents.wait_for(identifier, key)
    if state.status == "error":
        raise ApiError(400, state.error)
    url = str(request.base_url).rstrip("/")
    return {"translatedFileUrl": f"{url}/download_file/{identifier}-{key}{document.ending}"}


def _translation(request: Request, source: str, target: str, sample: str) -> TextTranslation:
    """How the texts of a file are translated; into the same language, they are copied."""
    service = service_of(request)
    if source.lower() == "auto" and service.registry.directions:
        source = service.registry.detect(sample).language
    direction = find_direction(service, source, target)
    if direction is not None:
        return service.text_translation(request, direction)

    async def copy(texts: Sequence[str], markup: Markup | None) -> list[str]:
        return [*texts]

    return TextTranslation(copy, None)


@router.get("/download_file/{name}", response_class=Response)
async def download_file(request: Request, name: str) -> Response:
    """A translated file, once."""
    identifier, _, rest = name.partition("-")
    documents = service_of(request).documents
    state = documents.state(identifier, rest.partition(".")[0])
    if state.status != "done":
        raise ApiError(404, "File not found")
    data = await asyncio.to_thread(documents.take, state)
    headers = {"Content-Disposition": f'attachment; filename="translated{state.ending}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)

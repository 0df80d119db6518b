"""The documents of DeepL: upload, status, result."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from regard.serving.api_errors import ApiError
from regard.serving.deepl import TextOptions
from regard.serving.deepl_glossaries import owner_of
from regard.serving.deepl_schemas import (
    ERRORS,
    DocumentHandle,
    DocumentKey,
    DocumentQuery,
    DocumentStatus,
    Failed,
)
from regard.serving.parameters import FORM, JSON, MULTIPART, Parameters, body_description
from regard.serving.service import context_of, service_of

router = APIRouter(prefix="/v2", responses=ERRORS, tags=["DeepL"])


@router.post(
    "/document",
    response_model=DocumentHandle,
    openapi_extra=body_description(DocumentQuery, MULTIPART),
)
async def upload(request: Request) -> Any:
    """Start to translate a document."""
    service, given = service_of(request), await Parameters.of(request)
    options, file = TextOptions.of(given), given.file("file")
    name = given.text("filename") or file.filename or ""
    document = await service.documents.read(name, file)
    output = (given.text("output_format") or "").lower().lstrip(".")
    if output and f".{output}" != document.ending:
        raise ApiError(400, "The output format must be that of the document.", "output_format")
    service.count_document(request, document.characters)
    direction = options.direction(service, document.sample)
    glossary = options.glossary(service, owner_of(context_of(request)), direction)
    translation = service.text_translation(request, direction, glossary)
    identifier, key = service.documents.start(document, translation)
    return {"document_id": identifier, "document_key": key}


@router.post(
    "/document/{document_id}",
    response_model=DocumentStatus,
    response_model_exclude_none=True,
    openapi_extra=body_description(DocumentKey, JSON, FORM),
)
async def status(request: Request, document_id: str) -> Any:
    """How far a document is."""
    key = (await Parameters.of(request)).text("document_key") or ""
    state = service_of(request).documents.state(document_id, key)
    return {
        "document_id": document_id,
        "status": state.status,
        "billed_characters": state.characters,
        "error_message": state.error or None,
    }


@router.post(
    "/document/{document_id}/result",
    response_class=Response,
    responses={503: {"model": Failed}},
    openapi_extra=body_description(DocumentKey, JSON, FORM),
)
async def result(request: Request, document_id: str) -> Response:
    """The translated document, once; status 503 means that it is not ready."""
    key = (await Parameters.of(request)).text("document_key") or ""
    documents = service_of(request).documents
    state = documents.state(document_id, key)
    if state.status == "error":
        raise ApiError(400, state.error)
    if state.status != "done":
        raise ApiError(503, "The document is not ready.")
    data = await asyncio.to_thread(documents.take, state)
    headers = {"Content-Disposition": f'attachment; filename="document{state.ending}"'}
    return Response(data, media_type="application/octet-stream", headers=headers)

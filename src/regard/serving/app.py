"""The application: all APIs, the page, health and metrics, with errors in the form of each API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import OutputError, RegardError, StorageError
from regard.serving import (
    deepl,
    deepl_documents,
    deepl_glossaries,
    huggingface,
    libretranslate,
    libretranslate_files,
    openai,
    v1,
)
from regard.serving.api_errors import ApiError, api_of, error_body
from regard.serving.batcher import QueueFullError
from regard.serving.docs_page import docs_page
from regard.serving.gate import Gate
from regard.serving.logs import LOGGER
from regard.serving.metrics import CONTENT_TYPE
from regard.serving.service import Service, service_of
from regard.version import __version__

_APIS = (
    v1,
    openai,
    libretranslate,
    libretranslate_files,
    deepl,
    deepl_glossaries,
    deepl_documents,
    huggingface,
)
_DESCRIPTION = "Translation and other tasks by models of regard."
# The page loads nothing from other hosts and runs no scripts of its own source.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


def make_app(service: Service) -> ASGIApp:
    """The application of a server."""
    app = FastAPI(
        title="regard",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # FastAPI's pages load scripts from another host
        redoc_url=None,
    )
    app.state.service = service
    _add_operations(app)
    for module in _APIS:
        app.include_router(module.router)
    app.mount("/", StaticFiles(packages=[("regard.serving", "page")], html=True))
    _add_error_handlers(app)
    config = service.config
    gate = Gate(app, service.limits, service.metrics, service.keys, log_texts=config.log_texts)
    return _SecurityHeaders(_with_origins(gate, config.cors_origin))


def _with_origins(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application with the permission for pages of these origins to send requests."""
    if not origins:
        return app
    return CORSMiddleware(app, origins, allow_methods=["*"], allow_headers=["*"])


def _add_operations(app: FastAPI) -> None:
    """Add health, metrics, reloading and the documentation of the API."""

    @app.get("/health", tags=["operation"])
    async def health() -> dict[str, str]:
        """Whether the process runs."""
        return {"status": "ok"}

    @app.get("/ready", tags=["operation"], responses={503: {"description": "shutting down"}})
    async def ready(request: Request) -> JSONResponse:
        """Whether the server takes requests: no longer after SIGTERM."""
        is_draining = service_of(request).is_draining
        status = "draining" if is_draining else "ready"
        return JSONResponse({"status": status}, 503 if is_draining else 200)

    @app.get("/metrics", tags=["operation"], response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Metrics in the format of Prometheus."""
        service = service_of(request)
        text = service.metrics.text(lambda: service.registry.queued)
        return Response(text, media_type=CONTENT_TYPE)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()))


def _add_error_handlers(app: FastAPI) -> None:
    """Answer errors in the form of the API that was asked."""

    def answer(request: Request, error: ApiError) -> JSONResponse:
        body = error_body(api_of(request.url.path), error)
        return JSONResponse(body, error.status, headers=error.headers)

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> JSONResponse:
        return answer(request, error)

    @app.exception_handler(RegardError)
    async def regard_error(request: Request, error: RegardError) -> JSONResponse:
        if isinstance(error, StorageError | OutputError):
            LOGGER.error("%s", error)
            return answer(request, ApiError(500, "The server cannot write its files."))
        return answer(request, ApiError(400, service_of(request).without_paths(str(error))))

    @app.exception_handler(QueueFullError)
    async def queue_full(request: Request, error: QueueFullError) -> JSONResponse:
        message = "Slowdown: the queue of the model is full. Try again later."
        return answer(request, ApiError(429, message, retry_after=2))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return answer(request, validation_error(request, error))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        response = answer(request, ApiError(error.status_code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response


def validation_error(request: Request, error: RequestValidationError) -> ApiError:
    """All problems of a request as one error."""
    problems: list[str] = []
    parameter = None
    for each in error.errors()[:20]:
        where = ".".join(str(part) for part in each["loc"] if part not in ("body", "query"))
        parameter = parameter or where or None
        problems.append(f"{where}: {each['msg']}" if where else str(each["msg"]))
    status = 422 if api_of(request.url.path) == "huggingface" else 400
    return ApiError(status, f"Invalid request: {'; '.join(problems)}", parameter)


class _SecurityHeaders:
    """Adds headers that restrict what browsers do with the answers."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)

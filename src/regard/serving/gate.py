"""The gate before all APIs: limits, keys, deadlines, strict JSON, the log and metrics.

It reads the whole body of a request before the application runs, so that slow clients occupy
nothing else, and watches the connection afterwards: the work of a client that hangs up is
cancelled, which removes its items from the queue of the model.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import DataError
from regard.schema import JsonReader
from regard.serving.api_errors import Api, ApiError, api_of, error_body
from regard.serving.config import LimitConfig
from regard.serving.keys import Keys, KeyUsage, now
from regard.serving.logs import LOGGER, log_request
from regard.serving.metrics import Metrics

_UNLIMITED = ("/health", "/ready", "/metrics")
# If there are keys, requests need one, except for these, and for what is read from other paths.
_PUBLIC = ("/health", "/ready", "/languages")
_GUARDED = ("/v1/", "/v2/", "/v3/", "/models/", "/metrics")
_DOCUMENTS = ("/v2/document", "/translate_file")
_JSON = JsonReader(DataError, "Correct it.")
_CLIENT_CLOSED = 499  # the status in the log for clients that hang up, as in nginx


@dataclass
class RequestContext:
    """What the gate and the endpoints of a request share; it is in `request.state.context`."""

    api: Api
    key: KeyUsage | None = None
    characters: int = 0
    model: str | None = None
    texts: list[str] = field(default_factory=list)

    def count(self, texts: list[str], metrics: Metrics) -> None:
        """Count the characters of texts, also against the limit of the key."""
        self.count_characters(sum(map(len, texts)), metrics)
        self.texts += texts

    def count_characters(self, characters: int, metrics: Metrics) -> None:
        """Count characters; raises an ApiError if the limit of the key is exceeded."""
        if self.key is not None:
            status = 456 if self.api == "deepl" else 429
            self.key.count_characters(characters, now(), status)
        self.characters += characters
        metrics.characters.inc(characters)


class Gate:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        limits: LimitConfig,
        metrics: Metrics,
        keys: Keys | None,
        *,
        log_texts: bool = False,
    ) -> None:
        self._app, self._limits, self._metrics, self._keys = app, limits, metrics, keys
        self._log_texts = log_texts
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = RequestContext(api_of(scope["path"]))
        scope.setdefault("state", {})["context"] = context
        response = _Response(send)
        start = time.perf_counter()
        is_counted = scope["path"] not in _UNLIMITED
        self._active += is_counted
        self._metrics.in_progress.set(self._active)
        try:
            await self._answer(scope, receive, response, context, is_counted=is_counted)
        except ApiError as error:
            await response.send_error(error, context.api, scope)
        except asyncio.CancelledError:
            raise
        except Exception:
            LOGGER.exception("internal error")
            internal = ApiError(500, "Internal error; the log of the server has the details.")
            await response.send_error(internal, context.api, scope)
        finally:
            self._active -= is_counted
            self._metrics.in_progress.set(self._active)
            self._log(scope, context, response.status, time.perf_counter() - start)

    def _log(self, scope: Scope, context: RequestContext, status: int, seconds: float) -> None:
        if scope["path"] in _UNLIMITED:
            return
        self._metrics.requests.labels(context.api, str(status)).inc()
        self._metrics.seconds.labels(context.api).observe(seconds)
        log_request(
            method=scope["method"],
            path=scope["path"],
            status=status,
            ms=round(seconds * 1000, 1),
            model=context.model,
            characters=context.characters or None,
            key=context.key.key.name if context.key else None,
            client=scope["client"][0] if scope.get("client") else None,
            texts=context.texts or None if self._log_texts else None,
        )

    async def _answer(
        self,
        scope: Scope,
        receive: Receive,
        response: _Response,
        context: RequestContext,
        *,
        is_counted: bool,
    ) -> None:
        if is_counted and self._active > self._limits.max_requests:
            message = "Slowdown: the server is at its limit of concurrent requests. Try again."
            raise ApiError(429, message, retry_after=1)
        headers = Headers(scope=scope)
        self._check_key(scope, headers, context)
        body = await self._read_body(scope, headers, receive)
        if body is None:
            response.status = _CLIENT_CLOSED
            return
        _check_body(body, headers)
        await self._run(scope, body, receive, response)

    def _check_key(self, scope: Scope, headers: Headers, context: RequestContext) -> None:
        """Find the key of a request; LibreTranslate's, which may be in the body, later."""
        path, is_get = scope["path"], scope["method"] in ("GET", "HEAD")
        if self._keys is None or scope["method"] == "OPTIONS" or path in _PUBLIC:
            return
        if is_get and not path.startswith(_GUARDED):  # the page, languages, files with their key
            return
        key = key_of(headers, scope["query_string"])
        if key is None and context.api == "libretranslate":
            return  # the endpoint calls `authorize`
        authorize(self._keys, key, context)

    async def _read_body(self, scope: Scope, headers: Headers, receive: Receive) -> bytes | None:
        """The body of a request; None if the client hangs up."""
        limit = self._limits.max_body
        if scope["path"].startswith(_DOCUMENTS):
            limit = max(limit, self._limits.max_document)
        too_large = ApiError(413, f"The request is larger than {limit:,} bytes. Send less.")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        parts, size = [], 0
        try:
            async with asyncio.timeout(self._limits.receive_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    part = message.get("body", b"")
                    size += len(part)
                    if size > limit:
                        raise too_large
                    parts.append(part)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            seconds = self._limits.receive_timeout
            raise ApiError(408, f"The request did not arrive in {seconds:g} seconds.") from None

    async def _run(self, scope: Scope, body: bytes, receive: Receive, response: _Response) -> None:
        """Run the application; stop if the client hangs up or the deadline passes."""
        hung_up = asyncio.Event()
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            if messages:
                return messages.pop()
            await hung_up.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            hung_up.set()

        running = asyncio.create_task(self._call(scope, replay, response))
        watching = asyncio.create_task(watch())
        try:
            deadline = self._limits.deadline
            if scope["path"].startswith(_DOCUMENTS):
                deadline = self._limits.document_deadline
            await asyncio.wait(
                {running, watching},
                timeout=deadline,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if running.done():
                await running
                return
            await _cancel(running)
            if hung_up.is_set() and not response.is_complete:
                self._metrics.cancelled.inc()
                response.status = _CLIENT_CLOSED
            elif not response.is_complete:
                message = f"Slowdown: no answer within {deadline:g} seconds. Send less, or later."
                raise ApiError(429, message, retry_after=5)
        finally:
            await _cancel(watching)
            await _cancel(running)

    async def _call(self, scope: Scope, receive: Receive, response: _Response) -> None:
        await self._app(scope, receive, response)


async def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait for its end."""
    if not task.done():
        task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task


class _Response:
    """Sends the answer, and notes its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True
        await self._send(message)

    async def send_error(self, error: ApiError, api: Api, scope: Scope) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.status:
            raise error
        answer = JSONResponse(error_body(api, error), error.status, headers=error.headers)

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        await answer(scope, receive, self)


def _check_body(body: bytes, headers: Headers) -> None:
    """Raise an error for JSON with duplicate names, NaN, deep nesting or lone surrogates."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if not body or not (kind == "application/json" or kind.endswith("+json")):
        return
    try:
        _JSON.parse(body, "the request")
    except DataError as error:
        raise ApiError(400, f"Invalid JSON format: {error}") from None


def key_of(headers: Headers, query: bytes = b"") -> str | None:
    """The API key in the headers or the query of a request."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() in ("bearer", "deepl-auth-key") and value.strip():
        return value.strip()
    if given := headers.get("x-api-key"):
        return given
    if b"api_key=" in query:
        values = parse_qs(query.decode("latin-1")).get("api_key", [])
        return values[0] if values else None
    return None


def authorize(keys: Keys | None, key: str | None, context: RequestContext) -> None:
    """Check a key and count the request; raises an ApiError."""
    if keys is None or context.key is not None:
        return
    usage = keys.find(key) if key else None
    if usage is None:
        status = 401 if context.api in ("v1", "huggingface") else 403
        raise ApiError(status, "Invalid API key" if key else "An API key is required")
    context.key = usage
    usage.count_request(now())

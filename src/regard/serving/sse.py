"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from regard.json_text import dumps

# What OpenAPI says of an answer that may be a stream.
STREAMS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event(data: Any, name: str = "") -> str:
    """An event with JSON data."""
    return (f"event: {name}\n" if name else "") + f"data: {dumps(data)}\n\n"


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """An answer of events."""
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)

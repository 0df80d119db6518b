"""Server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi.responses import StreamingResponse

from regard.json_text import dumps

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event(data: Any, name: str = "") -> str:
    """An event with JSON data."""
    return (f"event: {name}\n" if name else "") + f"data: {dumps(data)}\n\n"


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """An answer of events."""
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)

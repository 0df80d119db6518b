"""The log of the server on standard error: a line per request, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal

LOGGER = logging.getLogger("regard.serving")
_OTHERS = ("uvicorn.error", "regard.serving")


def set_up_log(log_format: Literal["text", "json"]) -> None:
    """Write the log of the server and of uvicorn to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    for name in _OTHERS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == LOGGER.name else logging.ERROR)


def log_request(**fields: Any) -> None:
    """Log a request; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    LOGGER.info("request", extra={"fields": given})


class _JsonFormatter(logging.Formatter):
    """A JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "process": record.process,
            **vars(record).get("fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(entry, ensure_ascii=True)


class _TextFormatter(logging.Formatter):
    """A line of text; control characters are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).isoformat(" ", timespec="milliseconds")
        fields = vars(record).get("fields", {})
        words = [f"{name}={_escape(value)}" for name, value in fields.items()]
        line = " ".join([time, record.levelname.lower(), _escape(record.getMessage()), *words])
        if record.exc_info:
            line += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return line


def _escape(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() else ascii(text)

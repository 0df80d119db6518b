"""Errors of requests, and their form in each API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Api = Literal["libretranslate", "deepl", "huggingface", "v1"]
_LIBRETRANSLATE = (
    "/translate",
    "/translate_file",
    "/download_file",
    "/languages",
    "/detect",
    "/frontend",
    "/spec",
    "/suggest",
)
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
_OPENAI_TYPES |= {413: "invalid_request_error", 429: "rate_limit_error", 500: "server_error"}


@dataclass
class ApiError(Exception):
    """A request that cannot be answered; the message says why and what to do."""

    status: int
    message: str
    parameter: str | None = None
    retry_after: float | None = None  # seconds

    def __str__(self) -> str:
        return self.message

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        headers = {"Connection": "close"} if self.status == 408 else {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, round(self.retry_after)))
        return headers


def api_of(path: str) -> Api:
    """The API that a path belongs to."""
    if path.startswith(("/v2", "/v3")):
        return "deepl"
    if path == "/" or path.startswith("/models"):
        return "huggingface"
    if f"/{path.split('/')[1]}" in _LIBRETRANSLATE:
        return "libretranslate"
    return "v1"


def error_body(api: Api, error: ApiError) -> dict[str, Any]:
    """An error in the form of an API."""
    if api == "deepl":
        return {"message": error.message, "detail": error.parameter or error.message}
    if api in ("libretranslate", "huggingface"):
        return {"error": error.message}
    kind = _OPENAI_TYPES.get(error.status, "invalid_request_error")
    return {
        "error": {
            "message": error.message,
            "type": kind,
            "param": error.parameter,
            "code": str(error.status),
        }
    }

"""The application without models: origins, headers and paths that do not exist."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx

from regard.decoding.runtime import Runtime
from regard.serving.app import make_app
from regard.serving.config import LimitConfig, ServerConfig
from regard.serving.metrics import Metrics
from regard.serving.registry import Registry
from regard.serving.service import Service

ORIGIN = "https://example.org"


def ask(state: Path, config: ServerConfig, method: str, path: str) -> httpx.Response:
    """The answer to a request of a page of another origin."""
    limits = LimitConfig()
    registry = Registry({}, Runtime(), limits)

    async def send() -> httpx.Response:
        service = Service(config, limits, registry, Metrics(), None, state)
        transport = httpx.ASGITransport(make_app(service))
        headers = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(send())


def test_other_origins_are_refused_unless_they_are_listed(tmp_path: Path) -> None:
    allowed = "access-control-allow-origin"
    listed = ServerConfig(cors_origin=(ORIGIN,))
    other = ServerConfig(cors_origin=("https://example.com",))
    for method, path in (("OPTIONS", "/v1/translate"), ("GET", "/languages"), ("GET", "/v1/x")):
        assert allowed not in ask(tmp_path, ServerConfig(), method, path).headers
        assert allowed not in ask(tmp_path, other, method, path).headers
        assert ask(tmp_path, listed, method, path).headers[allowed] == ORIGIN


def test_the_page_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    for path in ("/", "/docs"):
        answer = ask(tmp_path, ServerConfig(), "GET", path)
        assert answer.status_code == 200
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert not re.search(r"<script(?![^>]* src=)", answer.text)


def test_errors_have_the_form_of_the_api(tmp_path: Path) -> None:
    forms = {"/v1/x": {"error"}, "/v2/x": {"message", "detail"}, "/models/x": {"error"}}
    for path, names in forms.items():
        answer = ask(tmp_path, ServerConfig(), "GET", path)
        assert (answer.status_code, {*answer.json()}) in [(404, names), (405, names)]
    assert ask(tmp_path, ServerConfig(), "GET", "/../config.py").status_code == 404
    assert ask(tmp_path, ServerConfig(), "GET", "/%2e%2e/config.py").status_code == 404
    assert ask(tmp_path, ServerConfig(), "POST", "/detect").status_code == 400

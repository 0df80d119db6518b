"""Keys, limits and bad input: an answer of the 4xx kind, and the next request works."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import deepl
import httpx
import openai
import pytest
from libretranslatepy import LibreTranslateAPI

from cli.commands import Command, regard
from serving_process import ServerProcess

__all__ = ["regard"]
LIMITS = [
    *("--max-texts", "3", "--max-characters", "50", "--max-body", "100000", "--max-queue", "4"),
    *("--receive-timeout", "0.8", "--max-requests", "8"),
]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    from regard.serving.keys import add_key

    return {
        "path": path,
        "free": add_key(path, "free", 0, 0),
        "few": add_key(path, "few", 3, 0),
        "small": add_key(path, "small", 0, 10),
    }


@pytest.fixture(scope="module")
def guarded(languages: dict[str, Path], keys: dict[str, Any]) -> Iterator[ServerProcess]:
    options = ["--keys", str(keys["path"]), *LIMITS, "--log-format", "json"]
    with ServerProcess([languages["ende"]], *options) as server:
        yield server


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def send(server: ServerProcess, data: bytes, *, wait: float = 5) -> bytes:
    """Send bytes over a connection, and read the answer until its end or the time is up."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname or "", address.port or 0), 10) as connection:
        connection.settimeout(wait)
        connection.sendall(data)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
        return answer


def is_alive(server: ServerProcess, key: str) -> bool:
    query = {"texts": ["mira"]}
    return server.post("/v1/translate", query, headers=bearer(key)).status_code == 200


def test_keys_are_required_in_the_form_of_each_api(
    guarded: ServerProcess, keys: dict[str, Any]
) -> None:
    query: dict[str, Any] = {"texts": ["mira"]}
    assert guarded.post("/v1/translate", query).status_code == 401
    assert guarded.post("/v1/translate", query, headers=bearer("wrong")).status_code == 401
    assert guarded.post("/v1/translate", query, headers=bearer(keys["free"])).status_code == 200
    assert guarded.post("/", {"inputs": "mira"}).json() == {"error": "An API key is required"}
    libre = {"q": "mira", "source": "en", "target": "de"}
    response = guarded.post("/translate", libre)
    assert (response.status_code, response.json()) == (403, {"error": "An API key is required"})
    response = guarded.post("/translate", {**libre, "api_key": "wrong"})
    assert (response.status_code, response.json()) == (403, {"error": "Invalid API key"})
    assert LibreTranslateAPI(guarded.url, keys["free"]).translate("mira", "en", "de")
    with pytest.raises(deepl.AuthorizationException):
        deepl.DeepLClient("wrong", server_url=f"{guarded.url}/").get_usage()
    wrong = openai.OpenAI(base_url=f"{guarded.url}/v1", api_key="wrong")
    with wrong, pytest.raises(openai.AuthenticationError):
        wrong.models.list()
    for path in ("/health", "/ready", "/docs", "/languages", "/"):
        assert httpx.get(guarded.url + path).status_code == 200
    for path in ("/metrics", "/v1/models", "/v2/usage"):
        assert httpx.get(guarded.url + path).status_code in (401, 403)


def test_limits_of_keys(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    query = {"texts": ["mira"]}
    statuses = []
    for _ in range(5):
        response = guarded.post("/v1/translate", query, headers=bearer(keys["few"]))
        statuses.append(response.status_code)
    assert statuses == [200] * 3 + [429] * 2
    assert 0 < int(response.headers["retry-after"]) <= 60
    client = deepl.DeepLClient(keys["small"], server_url=f"{guarded.url}/")
    client.translate_text("mira tolu", source_lang="EN", target_lang="DE")
    assert client.get_usage().character.count == 9
    with pytest.raises(deepl.QuotaExceededException):
        client.translate_text("mira tolu", source_lang="EN", target_lang="DE")
    client.close()  # type: ignore[no-untyped-call]


def test_keys_are_stored_as_hashes(keys: dict[str, Any]) -> None:
    text = keys["path"].read_text()
    assert all(keys[name] not in text for name in ("free", "few", "small"))
    assert keys["path"].stat().st_mode & 0o077 == 0
    assert [each["name"] for each in json.loads(text)["keys"]] == ["free", "few", "small"]


def test_limits_have_the_form_of_each_api(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    headers = bearer(keys["free"])

    def status(path: str, body: Any) -> tuple[int, Any]:
        response = guarded.post(path, body, headers=headers)
        return response.status_code, response.json()

    assert status("/v1/translate", {"texts": ["a"] * 4})[0] == 413
    assert status("/v1/translate", {"texts": ["a" * 51]})[0] == 413
    libre = {"source": "en", "target": "de", "api_key": keys["free"]}
    assert status("/translate", {"q": ["a"] * 4, **libre})[0] == 400
    code, answer = status("/v2/translate", {"text": ["a"] * 4, "target_lang": "DE"})
    assert (code, {*answer}) == (413, {"message", "detail"})
    code, answer = status("/", {"inputs": ["a"] * 4})
    assert (code, {*answer}) == (413, {"error"})
    code, answer = status("/v1/translate", {"texts": ["a", "b\nc\nd\ne"]})  # 5 segments
    assert (code, "queue" in answer["error"]["message"]) == (429, True)
    code, answer = status("/v1/translate", {"texts": ["a" * 200_000]})
    assert (code, "larger than 100,000 bytes" in answer["error"]["message"]) == (413, True)
    assert is_alive(guarded, keys["free"])


BAD_JSON = [
    b"{",
    b"[]",
    b'{"texts": ["a"], "texts": ["b"]}',
    b'{"texts": ["\\ud800"]}',
    b'{"texts": ["\xff"]}',
    b'{"texts": [NaN]}',
    b'{"texts": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"texts": [' + b"1" * 5000 + b"]}",
    b'{"texts": {"a": 1}}',
    b"null",
    b"",
]


@pytest.mark.parametrize("path", ["/v1/translate", "/translate", "/v2/translate", "/"])
def test_bad_json_is_refused(guarded: ServerProcess, keys: dict[str, Any], path: str) -> None:
    headers = {**bearer(keys["free"]), "content-type": "application/json"}
    with httpx.Client(base_url=guarded.url, headers=headers, timeout=30) as client:
        for body in BAD_JSON:
            response = client.post(path, content=body)
            assert 400 <= response.status_code < 500, (body[:40], response.text)
            assert isinstance(response.json(), dict)
        for kind in (
            "text/plain",
            "application/xml",
            "multipart/form-data",
            "multipart/form-data; boundary=a",
        ):
            response = client.post(path, content=b"x", headers={"content-type": kind})
            assert 400 <= response.status_code < 500, (kind, response.text)
    assert is_alive(guarded, keys["free"])


def test_strange_texts_are_translated(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    texts = ["\0", "\x00mira\x07", "\u202e\ufeff", "", " \n\t\n ", "😀", "a\r\nb"]
    for text in texts:
        response = guarded.post("/v1/translate", {"texts": [text]}, headers=bearer(keys["free"]))
        assert response.status_code == 200, (text, response.text)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"POST /v1/translate HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_invalid_http_has_no_effect(
    guarded: ServerProcess, keys: dict[str, Any], data: bytes
) -> None:
    status = send(guarded, data, wait=0.4).split(b"\r\n")[0]
    assert status == b"" or b" 4" in status or b" 200 " in status
    assert is_alive(guarded, keys["free"])


def test_slow_and_silent_clients_are_disconnected(
    guarded: ServerProcess, keys: dict[str, Any]
) -> None:
    start = time.monotonic()
    assert send(guarded, b"GET / HTTP/1.1\r\nHost: a\r\n") == b""  # without end of headers
    key = keys["free"].encode()
    head = b"POST /v1/translate HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + key
    answer = send(guarded, head + b"\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert time.monotonic() - start < 10
    assert is_alive(guarded, keys["free"])


def test_large_requests_are_refused(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    headers = bearer(keys["free"])
    for body in ({"texts": ["a" * 10_000_000]}, {"texts": [""] * 100_000}):
        assert guarded.post("/v1/translate", body, headers=headers).status_code == 413
    chunks = (b'{"texts": ["' if n == 0 else b"a" * 50_000 for n in range(10))
    kind = {"content-type": "application/json"}
    response = httpx.post(
        f"{guarded.url}/v1/translate", content=chunks, headers={**headers, **kind}, timeout=30
    )
    assert response.status_code == 413
    assert is_alive(guarded, keys["free"])


def test_half_closed_connections_are_closed(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    address = urlsplit(guarded.url)
    with socket.create_connection((address.hostname or "", address.port or 0), 10) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(5)
        while connection.recv(65536):  # an answer or none, but no hang
            pass
    assert is_alive(guarded, keys["free"])


def test_many_idle_connections_do_not_block_others(
    guarded: ServerProcess, keys: dict[str, Any]
) -> None:
    address = urlsplit(guarded.url)
    target = address.hostname or "", address.port or 0
    connections = [socket.create_connection(target, 10) for _ in range(300)]
    assert is_alive(guarded, keys["free"])
    for connection in connections:
        connection.close()


def test_the_log_has_no_texts_and_no_keys(guarded: ServerProcess, keys: dict[str, Any]) -> None:
    secret = "kapi dov kapi"
    query = {"q": secret, "source": "en", "target": "de", "api_key": keys["free"]}
    assert httpx.post(f"{guarded.url}/translate", params=query).status_code == 200
    lines = [json.loads(line) for line in guarded.lines if line.startswith("{")]
    last = next(line for line in reversed(lines) if line.get("path") == "/translate")
    assert (last["status"], last["model"], last["key"]) == (200, "ende", "free")
    assert last["characters"] == len(secret)
    assert secret not in guarded.log
    assert "kapi+dov" not in guarded.log
    assert keys["free"] not in guarded.log


def test_the_command_creates_keys(tmp_path: Path, regard: Command) -> None:
    path = tmp_path / "keys.json"
    arguments = ("serve", "--keys", str(path), "--new-key")
    result = regard(*arguments, "mine", "--key-requests", "5")
    assert result.status == 0
    assert result.out.startswith("rg-")
    assert json.loads(path.read_text())["keys"][0]["requests_per_minute"] == 5
    assert "already" in regard(*arguments, "mine").err
    assert "No model folder" in regard("serve").err

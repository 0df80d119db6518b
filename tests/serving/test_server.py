"""Processes and signals: hanging up, draining, reloading, several processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.commands import Command, regard
from serving_process import ServerProcess, model_with_languages

__all__ = ["regard"]

LONG = "\n".join(f"mira tolu {word} sen" for word in ("kapi", "dov", "lume", "sen")) + "\n"


def until(condition: Any, seconds: float = 20) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def metric(server: ServerProcess, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics").text
    values = [line.split()[-1] for line in text.splitlines() if line.startswith(f"{name} ")]
    return float(values[0])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_with_languages(tmp_path / "ende", "en", "de")


def test_hanging_up_reloading_and_draining(model: Path) -> None:
    """In one process, since it takes seconds to start."""
    options = ["--max-characters", "200000", "--batch-tokens", "8", "--max-queue", "100000"]
    server = ServerProcess([model], *options)
    with server:
        query = {"texts": [LONG * 800]}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/translate", json=query, timeout=1)
        until(lambda: metric(server, "regard_cancelled_total") == 1)
        until(lambda: metric(server, "regard_queued_items") == 0, 5)
        assert metric(server, "regard_requests_in_progress") == 0
        check_reloading(server, model)
        check_draining(server)
    assert server.process.returncode == 0
    assert "Traceback" not in server.log


def check_reloading(server: ServerProcess, model: Path) -> None:
    query = {"texts": ["mira tolu"]}
    before = server.post("/v1/translate", query).json()["translations"][0]["text"]
    other = model_with_languages(model.parent / "other", "en", "fr")
    shutil.rmtree(model)
    server.process.send_signal(signal.SIGHUP)  # while there is nothing
    until(lambda: "stays as it is" in server.log)
    assert server.post("/v1/translate", query).json()["translations"][0]["text"] == before
    other.rename(model)
    stop = threading.Event()

    def ask() -> set[int]:
        statuses = set()
        while not stop.is_set():
            statuses.add(server.post("/v1/translate", query).status_code)
        return statuses

    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(ask) for _ in range(2)]
        server.process.send_signal(signal.SIGHUP)
        until(lambda: "reloaded ende" in server.log)
        stop.set()
        assert all(each.result() == {200} for each in running)
    languages = httpx.get(f"{server.url}/languages").json()
    assert languages[0]["targets"] == ["fr"]


def check_draining(server: ServerProcess) -> None:
    """All requests that the server has accepted are answered after SIGTERM."""
    query = {"texts": [LONG * 30]}
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(server.post, "/v1/translate", query) for _ in range(6)]
        until(lambda: metric(server, "regard_requests_in_progress") == 6)
        server.process.send_signal(signal.SIGTERM)
        assert [each.result().status_code for each in running] == [200] * 6
    with pytest.raises(httpx.TransportError):
        server.post("/v1/translate", query)
    server.process.wait(20)


def test_several_processes_on_one_port(model: Path, tmp_path: Path) -> None:
    options = ["--workers", "2", "--state", str(tmp_path / "state"), "--log-format", "json"]
    with ServerProcess([model], *options) as server:
        until(lambda: server.log.count("listening on") == 2, 60)

        def ask(number: int) -> int:
            return server.post("/v1/translate", {"texts": [f"mira {number}"]}).status_code

        with ThreadPoolExecutor(8) as pool:
            assert {*pool.map(ask, range(40))} == {200}
        requests = [json.loads(line) for line in server.lines if '"path"' in line]
        assert len({each["process"] for each in requests}) == 2
        glossary = {"name": "a", "source_lang": "en", "target_lang": "de", "entries": "a\tb"}
        assert server.post("/v2/glossaries", glossary).status_code == 201
        for _ in range(8):  # any process has it
            assert len(httpx.get(f"{server.url}/v2/glossaries").json()["glossaries"]) == 1
        text = httpx.get(f"{server.url}/metrics").text
        assert 'regard_requests_total{api="v1",status="200"} 40.0' in text
        status = server.stop()
    assert status == 0


@pytest.mark.long
def test_a_process_that_is_killed_is_replaced(model: Path) -> None:
    with ServerProcess([model], "--workers", "2", "--log-format", "json") as server:
        until(lambda: server.log.count("listening on") == 2, 60)
        time.sleep(10)  # processes that end sooner are not replaced
        lines = [json.loads(line) for line in server.lines if "listening on" in line]
        os.kill(lines[0]["process"], signal.SIGKILL)
        until(lambda: server.log.count("listening on") == 3, 60)
        assert server.post("/v1/translate", {"texts": ["mira"]}).status_code == 200
        assert server.stop() == 0


def test_errors_at_the_start(model: Path, tmp_path: Path, regard: Command) -> None:
    assert "There is no model folder" in regard("serve", tmp_path / "nothing", "--port", "0").err
    error = regard("serve", model, f"ende={model}").err
    assert "Two models have the name 'ende'" in error
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        assert "Cannot listen on 127.0.0.1" in regard("serve", model, "--port", port).err
    outside = regard("serve", tmp_path / "nothing", "--port", "0", "--host", "0.0.0.0").err
    assert "needs no keys" in outside

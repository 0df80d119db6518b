"""Load of a translation server: requests/s, latency and wrong answers at 1 to 128 clients.

    python benchmarks/serving.py --model runs/multi30k-en-de --text multi30k/test_2016_flickr.en
    python benchmarks/serving.py --url http://127.0.0.1:5000 --text multi30k/test_2016_flickr.en
    python benchmarks/serving.py --model runs/multi30k-en-de --text ... --soak 600 --rate 50

With `--model`, `regard serve` is started on a free port; with `--url`, another server with the API
of LibreTranslate is measured by the same requests, one sentence each, on this machine only.
Clients are coroutines of one process with a connection each, which wait for an answer before they
send the next request. `--soak` sends requests at a fixed rate instead, and prints the growth of the
server's memory after a tenth of the time. Answers are compared with those of `regard translate` in
the precision of the server; errors are answers with another status than 200.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import machine
from pages import fill

PAGE = Path("docs/results/benchmarks.md")
_LISTENING = re.compile(r"listening on (http://[^:]+:[0-9]+)")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = 60.0  # seconds


@dataclass
class Measured:
    """The answers of a run."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    errors: int = 0

    def row(self, name: str, duration: float) -> str:
        """A row of the table."""
        ordered = sorted(self.seconds) or [0.0]
        p50 = statistics.median(ordered)
        p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
        return (
            f"| {name} | {len(self.seconds) / duration:,.0f} | {1000 * p50:,.0f} "
            f"| {1000 * p99:,.0f} | {self.wrong} | {self.errors} |"
        )


def main() -> None:
    """Print or write the table."""
    options = _options()
    sources = [line for line in options.text.read_text(encoding="utf-8").splitlines() if line]
    sources = sources[: options.sentences]
    expected = _expected(options, sources) if options.model else None
    head = "| clients | requests/s | p50 ms | p99 ms | wrong | errors |\n|---|---|---|---|---|---|"
    with _server(options) as (url, process):
        requests = _Requests(url, options.source_lang, options.target_lang, sources, expected)
        asyncio.run(requests.closed_loop(8, min(5.0, options.seconds)))  # warm-up
        if options.soak:
            print(_soak(requests, options, process))
            return
        rows = []
        for clients in options.clients:
            start = time.perf_counter()
            measured = asyncio.run(requests.closed_loop(clients, options.seconds))
            rows.append(measured.row(str(clients), time.perf_counter() - start))
            print(rows[-1], flush=True)
    hardware = machine.describe(options.device)
    name = "regard serve" if options.model else options.url
    about = f"{hardware['device']}, {hardware['cores']} cores; {name}; {options.seconds:g} s each."
    report = "\n".join([about, "", head, *rows])
    print(report)
    if options.write:
        fill(PAGE, options.write, report)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="model folder, for which a server is started")
    parser.add_argument("--url", help="server on this machine with the API of LibreTranslate")
    parser.add_argument("--text", type=Path, required=True, help="file of source sentences")
    parser.add_argument("--source-lang", default="en")
    parser.add_argument("--target-lang", default="de")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each number of clients")
    parser.add_argument("--soak", type=float, default=0.0, help="seconds at a fixed rate")
    parser.add_argument("--rate", type=float, default=50.0, help="requests/s of --soak")
    parser.add_argument("--precision", default=None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--serve", nargs="*", default=[], help="more options of `regard serve`")
    parser.add_argument("--write", help="name of the table in docs/results/benchmarks.md")
    options = parser.parse_args()
    if bool(options.model) == bool(options.url):
        parser.error("one of --model and --url is required")
    if options.url and urlsplit(options.url).hostname not in _LOOPBACK:
        parser.error("--url must be on this machine")
    return options


def _expected(options: Any, sources: Sequence[str]) -> list[str]:
    """The offline translations, in the precision that the server uses."""
    from regard.decoding.runtime import Runtime
    from regard.models.folder import ModelFolder
    from regard.serving.registry import load_pipeline

    runtime = Runtime(device=options.device, precision=options.precision)
    translator = load_pipeline(options.model, ModelFolder.read(options.model), runtime)
    return [translation.text for translation in translator.translate(sources)]


@contextmanager
def _server(options: Any) -> Iterator[tuple[str, subprocess.Popen[str] | None]]:
    """The URL of a running server, and its process if we have started it."""
    if options.url:
        yield options.url, None
        return
    command = [sys.executable, "-m", "regard", "serve", str(options.model), "--port", "0"]
    command += ["--device", options.device, *[f"--{each}" for each in options.serve]]
    command += ["--precision", options.precision] if options.precision else []
    log = subprocess.PIPE
    with subprocess.Popen(command, stderr=log, text=True) as process:
        assert process.stderr is not None
        url = next(match.group(1) for line in process.stderr if (match := _LISTENING.search(line)))
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield url, process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            drain.wait(10)


class _Requests:
    """Requests for single sentences."""

    def __init__(
        self,
        url: str,
        source: str,
        target: str,
        sources: Sequence[str],
        expected: Sequence[str] | None,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._expected = expected
        bodies = [
            json.dumps({"q": text, "source": source, "target": target}).encode() for text in sources
        ]
        self._requests = [
            f"POST /translate HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
            for body in bodies
        ]
        self._next = 0

    async def closed_loop(self, clients: int, seconds: float) -> Measured:
        """Each client sends a request when it has the answer to the last."""
        measured, end = Measured(), time.perf_counter() + seconds

        async def client() -> None:
            connection = _Connection(self._host, self._port)
            while time.perf_counter() < end:
                await self._send(connection, measured)
            connection.close()

        await asyncio.gather(*(client() for _ in range(clients)))
        return measured

    async def open_loop(self, rate: float, seconds: float) -> Measured:
        """Requests at a fixed rate, whether or not earlier ones are answered."""
        measured, start = Measured(), time.perf_counter()
        idle: list[_Connection] = []

        async def one_request() -> None:
            connection = idle.pop() if idle else _Connection(self._host, self._port)
            await self._send(connection, measured)
            idle.append(connection)

        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
                tasks.create_task(one_request())
        for connection in idle:
            connection.close()
        return measured

    async def _send(self, connection: _Connection, measured: Measured) -> None:
        number = self._next % len(self._requests)
        self._next += 1
        begin = time.perf_counter()
        try:
            async with asyncio.timeout(_TIMEOUT):
                status, body = await connection.ask(self._requests[number])
        except (OSError, EOFError, TimeoutError, ValueError):
            connection.close()
            measured.errors += 1
            return
        measured.seconds.append(time.perf_counter() - begin)
        if status != 200:
            measured.errors += 1
        elif self._expected is not None:
            measured.wrong += json.loads(body)["translatedText"] != self._expected[number]


class _Connection:
    """A connection that is opened when it is needed; just enough HTTP to cost little time."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The status and body of the answer to a request."""
        is_reused = self._streams is not None
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
        except (OSError, EOFError):
            self.close()
            if not is_reused:
                raise
            return await self.ask(request)  # the server has closed an idle connection
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if b"connection: close" in head:
            self.close()
        return int(head.split(b" ", 2)[1]), body

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def _soak(requests: _Requests, options: Any, process: subprocess.Popen[str] | None) -> str:
    """Requests at a fixed rate, and the growth of the server's memory."""
    warm_up = options.soak / 10
    asyncio.run(requests.open_loop(options.rate, warm_up))
    before = _memory(process)
    start = time.perf_counter()
    measured = asyncio.run(requests.open_loop(options.rate, options.soak - warm_up))
    after = _memory(process)
    row = measured.row(f"{options.rate:g} requests/s", time.perf_counter() - start)
    growth = f"{100 * (after / before - 1):+.1f} %" if before else "unknown"
    return f"{row}\nMemory: {before / 1e6:,.0f} MB, growth {growth}."


def _memory(process: subprocess.Popen[str] | None) -> int:
    """The resident memory of the server in bytes; 0 if it is not ours."""
    if process is None:
        return 0
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()

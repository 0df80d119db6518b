"""A server process for tests, and models with languages for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

STORED = Path(__file__).parent / "stored" / "models"
_SSL = ssl.create_default_context()  # one for all clients: it takes long to make
_LISTENING = re.compile(r"listening on (http://[^:]+:[0-9]+)")


def model_with_languages(out: Path, source: str, target: str, kind: str = "transformer") -> Path:
    """A copy of a stored model that translates between these languages."""
    shutil.copytree(STORED / kind, out)
    path = out / "config.json"
    config = json.loads(path.read_text())
    config["languages"] = {"source": source, "target": target}
    path.write_text(json.dumps(config))
    return out


class ServerProcess:
    """`regard serve` on a free port."""

    def __init__(
        self, models: Sequence[str | Path], *options: str, cwd: Path | None = None
    ) -> None:
        command = [sys.executable, "-m", "regard", "serve", *map(str, models), "--port", "0"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=cwd,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.url = ""
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if match := _LISTENING.search(line):
                self.url = match.group(1)
                self._started.set()
        self._started.set()

    def __enter__(self) -> ServerProcess:
        assert self._started.wait(60), "the server does not start"
        assert self.url, "".join(self.lines)
        for _ in range(100):  # another process may be the one that listens
            try:
                httpx.get(f"{self.url}/ready", timeout=5)
            except httpx.TransportError:
                continue
            return self
        raise AssertionError("the server does not answer")

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Drain the server; returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        self._thread.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        """Send JSON."""
        return httpx.post(self.url + path, json=body, timeout=30, verify=_SSL, **more)

    @property
    def log(self) -> str:
        """The log so far."""
        return "".join(self.lines)

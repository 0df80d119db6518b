"""Systems that run in other processes: the client of `worker.py`, and commands."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from comparison import Round, Tree, UnavailableError
from memory import peak_rss

BENCHMARKS = Path(__file__).parents[1]
_TIMEOUT = 420.0  # seconds for a start or a round, including compilation


def environment(threads: int) -> dict[str, str]:
    """Environment variables of all systems: the number of threads, and a short spin time.

    Threads that spin while they wait, which is the default, are slow if another process needs a
    core. The `regard` command sets the spin time itself.
    """
    path = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
    variables = {"PYTHONPATH": path, "GOMP_SPINCOUNT": "10000", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **variables, "OMP_NUM_THREADS": str(threads)}


class Worker:
    """A process that prints `{}` after its warm-up, and a round as JSON for each input line.

    A persistent worker waits for its next round; another one is restarted for each round, which
    frees its memory in between.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        is_peer: bool,
        log: Path,
        environment: Mapping[str, str],
        persistent: bool,
    ) -> None:
        self.name = name
        self.is_peer = is_peer
        self._command = command
        self._environment = environment
        self._persistent = persistent
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._problem: str | None = None

    def round(self) -> Round:
        """Run a round of a process whose responses have the fields of `Round`."""
        return Round(**self.request_round())

    def request_round(self) -> Tree:
        """Start the process if necessary, and run a round; returns its response."""
        self.start()
        if self._problem is not None:
            raise UnavailableError(self._problem)
        try:
            return self._request("\n")
        finally:
            if not self._persistent:
                self.close()

    def start(self) -> None:
        """Start the process and wait for its warm-up; the first round reports failures."""
        if self._process is not None or self._problem is not None:
            return
        with self._log.open("w") as stderr:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        try:
            self._request("")
        except UnavailableError as reason:
            self._problem = str(reason)
            self.close()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _request(self, request: str) -> Tree:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _TIMEOUT)[0]:
            raise UnavailableError(f"no response within {_TIMEOUT:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise UnavailableError(last_line(self._log))
        response: Tree = json.loads(line)
        return response


def run_command(
    command: Sequence[str], log: Path, environment: Mapping[str, str], **more: Any
) -> float:
    """Run a command with its output in a log and `more` for `Popen`; returns peak memory, GiB."""
    with log.open("w") as output:
        streams = {"stdout": output, "stderr": output, **more}
        process = subprocess.Popen(command, env=environment, **streams)
    with ThreadPoolExecutor(1) as pool:
        peak = pool.submit(_track_memory, process)
        failed = process.wait()
    if failed:
        raise UnavailableError(last_line(log))
    return peak.result()


def _track_memory(process: subprocess.Popen[bytes]) -> float:
    """The peak memory of a process until it ends; it is killed after the timeout."""
    end, peak = time.monotonic() + _TIMEOUT, 0.0
    while process.returncode is None:
        peak = max(peak, peak_rss(process.pid))
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.01)
    return peak


def last_line(log: Path) -> str:
    """The last line of a log, usually the error message; without frames and absolute paths."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    lines = [line.strip("│ \t") for line in lines if any(map(str.isalnum, line))]
    if not lines:
        return "the process ended without a message"
    return lines[-1].replace(f"{Path.cwd()}/", "")[:200]

"""A contestant that is a process, whatever it does: the other end of `worker.py`."""

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

from contest import Round, Tree, UnableError
from memory import high_water

BENCHMARKS = Path(__file__).parents[1]
_PATIENCE = 420.0  # seconds for a start or a round; compiling takes its time


def environment(threads: int) -> dict[str, str]:
    """The same for everybody: so many threads, which soon sleep when they wait.

    Threads that spin, as they do by default, lose most of their speed as soon as anything else
    wants a core. The `regard` command sets this for itself; here all have it.
    """
    path = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
    chosen = {"PYTHONPATH": path, "GOMP_SPINCOUNT": "10000", "TOKENIZERS_PARALLELISM": "false"}
    return {**os.environ, **chosen, "OMP_NUM_THREADS": str(threads)}


class Worker:
    """A program that says `{}` once it is warm, and answers each line with a round as JSON.

    One that is kept waits for its next round; one that is not begins anew, so that what it held
    is free for others.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        rival: bool,
        log: Path,
        environment: Mapping[str, str],
        kept: bool,
    ) -> None:
        self.name = name
        self.rival = rival
        self._command = command
        self._environment = environment
        self._kept = kept
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._problem: str | None = None

    def round(self) -> Round:
        """Of a program that tells what a `Round` has to know."""
        return Round(**self.answer())

    def answer(self) -> Tree:
        """Start if need be, and have a round done; what the program says of it."""
        self.start()
        if self._problem is not None:
            raise UnableError(self._problem)
        try:
            return self._answer("\n")
        finally:
            if not self._kept:
                self.close()

    def start(self) -> None:
        """Until it is warm; what goes wrong is told in the first round."""
        if self._process is not None or self._problem is not None:
            return
        with self._log.open("w") as complaints:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
        try:
            self._answer("")
        except UnableError as reason:
            self._problem = str(reason)
            self.close()

    def close(self) -> None:
        """Let it go."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _answer(self, request: str) -> Tree:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        if not select.select([process.stdout], [], [], _PATIENCE)[0]:
            raise UnableError(f"no answer in {_PATIENCE:.0f} s")
        line = process.stdout.readline()
        if not line:
            raise UnableError(last_words(self._log))
        answer: Tree = json.loads(line)
        return answer


def run(command: Sequence[str], log: Path, environment: Mapping[str, str], **more: Any) -> float:
    """Run a command that writes into a log, with `more` for `Popen`; its peak of memory, GiB."""
    with log.open("w") as complaints:
        outputs = {"stdout": complaints, "stderr": complaints, **more}
        process = subprocess.Popen(command, env=environment, **outputs)
    with ThreadPoolExecutor(1) as pool:
        peak = pool.submit(_watched, process)
        failed = process.wait()
    if failed:
        raise UnableError(last_words(log))
    return peak.result()


def _watched(process: subprocess.Popen[bytes]) -> float:
    """The peak of a process until it is over, which it is when patience is."""
    end, peak = time.monotonic() + _PATIENCE, 0.0
    while process.returncode is None:
        peak = max(peak, high_water(process.pid))
        if time.monotonic() > end:
            process.kill()
        time.sleep(0.01)
    return peak


def last_words(log: Path) -> str:
    """The end of what a process complained about: why it failed, as a rule."""
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line.strip("│ \t") for line in said if any(map(str.isalnum, line))]  # out of its frame
    if not said:
        return "it ended without a word"
    return said[-1].replace(f"{Path.cwd()}/", "")[:200]  # where we are is nobody's business

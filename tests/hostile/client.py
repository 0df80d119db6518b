"""Client of the server: runs commands and returns their outcomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

NOBODY = 65534
TESTS = Path(__file__).parents[1]
MEMORY = 3 << 30  # bytes of address space after the imports
CPU_SECONDS = 30
WALL_SECONDS = 120.0  # for commands that hang
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Call:
    """A command line and its environment."""

    arguments: tuple[str, ...]
    folder: Path
    stdin: str = "file:/dev/null"
    stdout: str = ""  # default: a file beside the folder
    stderr: str = ""
    environment: dict[str, str | None] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    signals: tuple[tuple[int, float], ...] = ()
    delay: float = 0.0
    timeout: float = WALL_SECONDS
    vanish: bool = False


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command."""

    status: int  # negative: signal number
    out: bytes
    err: str
    seconds: float
    cpu: float
    memory: int  # peak in bytes
    late: bool


class Server:
    """The server process, which forks commands."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="regard-hostile-home-")
        chown_to_nobody(Path(self._home.name))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hostile.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment(), "HOME": self._home.name},
        )
        self._memory = int(self._answer()["memory"]) + MEMORY
        self._calls = 0

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._home.cleanup()

    def run(self, call: Call) -> Outcome:
        """Run a command by itself."""
        return self.run_concurrently([call])[0]

    def run_concurrently(self, calls: list[Call]) -> list[Outcome]:
        """Run commands concurrently."""
        self._calls += 1
        calls = [self._with_defaults(call, number) for number, call in enumerate(calls)]
        assert self._process.stdin is not None
        jobs = [{**vars(call), "folder": str(call.folder)} for call in calls]
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        return [_outcome(call, answer) for call, answer in zip(calls, self._answer(), strict=True)]

    def _with_defaults(self, call: Call, number: int) -> Call:
        """The call with files for its output, and with default limits."""
        beside = call.folder.parent
        names = {name: f"{beside}/{self._calls}-{number}.{name}" for name in ("stdout", "stderr")}
        limits = {
            "RLIMIT_AS": self._memory,
            "RLIMIT_CPU": CPU_SECONDS,
            "RLIMIT_CORE": 0,
            **call.limits,
        }
        return replace(
            call,
            stdout=call.stdout or f"file:{names['stdout']}",
            stderr=call.stderr or f"file:{names['stderr']}",
            limits=limits,
        )

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has exited"
        return json.loads(line)


def environment() -> dict[str, str]:
    """Environment variables of the server: one thread, path of the code, a cache in its home."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    other = ("PYTHONUNBUFFERED", "XDG_CACHE_HOME")
    plain = {name: value for name, value in os.environ.items() if name not in other}
    return {**plain, **ONE_THREAD, "PYTHONPATH": path}


def chown_to_nobody(*folders: Path) -> None:
    """If this is root, change the owner of files to the user of the server."""
    if os.getuid() != 0:
        return
    for folder in folders:
        for path in [folder, *folder.rglob("*")]:
            with suppress(OSError):  # read-only disk
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _outcome(call: Call, answer: dict[str, Any]) -> Outcome:
    return Outcome(out=_written(call.stdout), err=_text(_written(call.stderr)), **answer)


def _written(stream: str) -> bytes:
    kind, _, path = stream.partition(":")
    return Path(path).read_bytes() if kind == "file" and Path(path).is_file() else b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")

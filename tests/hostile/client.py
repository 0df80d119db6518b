"""Commands that are run by the server, and how they ended."""

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
MEMORY = 3 << 30  # bytes of address space beyond what the imports take
CPU_SECONDS = 30
WALL_SECONDS = 120.0  # for commands that wait for ever
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Call:
    """One command line and all around it."""

    words: tuple[str, ...]
    folder: Path
    stdin: str = "file:/dev/null"
    stdout: str = ""  # a file beside the folder, unless something else is asked for
    stderr: str = ""
    environment: dict[str, str | None] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    signals: tuple[tuple[int, float], ...] = ()
    delay: float = 0.0
    timeout: float = WALL_SECONDS
    vanish: bool = False


@dataclass(frozen=True)
class Ended:
    """What came of it."""

    status: int  # negative: the number of the signal that ended it
    out: bytes
    err: str
    seconds: float
    cpu: float
    memory: int  # bytes in use at most
    late: bool


class Server:
    """The process that forks; ends with this object."""

    def __init__(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="regard-hostile-home-")
        give_away(Path(self._home.name))
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

    def run(self, call: Call) -> Ended:
        """Run a command by itself."""
        return self.together([call])[0]

    def together(self, calls: list[Call]) -> list[Ended]:
        """Run commands at the same time."""
        self._calls += 1
        whole = [self._completed(call, number) for number, call in enumerate(calls)]
        assert self._process.stdin is not None
        jobs = [{**vars(call), "folder": str(call.folder)} for call in whole]
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        return [_ended(call, answer) for call, answer in zip(whole, self._answer(), strict=True)]

    def _completed(self, call: Call, number: int) -> Call:
        """With files for what it writes and limits that every command has."""
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
        assert line, "the server has died"
        return json.loads(line)


def environment() -> dict[str, str]:
    """Where the server, or a real process, finds the code, with one thread."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {**plain, **ONE_THREAD, "PYTHONPATH": path}


def give_away(*places: Path) -> None:
    """Give files to the user that the server becomes; they are its own unless root runs it."""
    if os.getuid() != 0:
        return
    for place in places:
        for path in [place, *place.rglob("*")]:
            with suppress(OSError):  # a disk that is read-only
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


def _ended(call: Call, answer: dict[str, Any]) -> Ended:
    return Ended(out=_written(call.stdout), err=_text(_written(call.stderr)), **answer)


def _written(stream: str) -> bytes:
    kind, _, path = stream.partition(":")
    return Path(path).read_bytes() if kind == "file" and Path(path).is_file() else b""


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")

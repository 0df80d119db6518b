"""Runs many commands with other standard streams, each in a fork of one process.

Starting Python and importing PyTorch takes seconds; forking takes none. The cases are read from
standard input as JSON, the outcomes are written to standard output as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any

_SECONDS = 60


@dataclass(frozen=True)
class Case:
    """A command line, and what its standard streams are.

    Streams are "file" (which is read afterwards), "closed", "full", "broken" (a pipe without a
    reader) or "busy" (a pipe that does not block, read slowly).
    """

    arguments: Sequence[str]
    input: str | None = ""  # None: closed
    output: str = "file"
    error: str = "file"


@dataclass(frozen=True)
class Outcome:
    """Its exit status, or minus the signal that ended it; and what was written."""

    status: int
    out: str
    err: str


def outcomes(cases: Sequence[Case]) -> list[Outcome]:
    """Of each case, from one process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("PYTHONUNBUFFERED", None)
    result = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps([vars(case) for case in cases]),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return [Outcome(**row) for row in json.loads(result.stdout)]


def _run(case: Case) -> Outcome | None:
    """What a case came to; None in the fork, which goes on to run the command."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            signal.alarm(_SECONDS)
            os.close(reading)
            _replace_input(case.input)
            _replace(1, case.output, {"file": out.fileno(), "busy": writing})
            _replace(2, case.error, {"file": err.fileno(), "busy": writing})
            os.close(writing)
            sys.argv = ["regard", *case.arguments]
            return None
        os.close(writing)
        piped = b""
        while data := os.read(reading, 3000):
            piped += data
            time.sleep(0.001)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        written = [piped + out.read(), err.read()]
    texts = [data.decode("utf-8", "backslashreplace") for data in written]
    return Outcome(os.waitstatus_to_exitcode(status), *texts)


def _replace_input(text: str | None) -> None:
    if text is None:
        os.close(0)
        sys.stdin = None
        return
    with tempfile.TemporaryFile() as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        os.dup2(file.fileno(), 0)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115


def _replace(descriptor: int, kind: str, opened: dict[str, int]) -> None:
    """Make it what a case says, and the stream of it what Python makes of that when it starts."""
    stream: Any = None
    if kind == "closed":
        os.close(descriptor)
    else:
        os.dup2(opened[kind] if kind in opened else _opened(kind), descriptor)
        os.set_blocking(descriptor, kind != "busy")
        raw = FileIO(descriptor, "w", closefd=False)
        stream = TextIOWrapper(BufferedWriter(raw), line_buffering=descriptor == 2)
    if descriptor == 1:
        sys.stdout = stream
    else:
        sys.stderr = stream


def _opened(kind: str) -> int:
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    assert kind == "broken"
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def _end() -> None:
    """Run the command and end as Python does: it flushes the streams, which must not fail.

    All the rest that Python does at its end takes longer than most commands.
    """
    status: Any = 0
    try:
        regard_main()
    except SystemExit as left:
        status = left.code
    except BaseException:
        traceback.print_exc()
        status = 1
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except Exception:
        status = 120
    os._exit(status or 0)


def main() -> None:
    """Fork for each case."""
    torch.set_num_threads(1)
    results = []
    for row in json.load(sys.stdin):
        outcome = _run(Case(**row))
        if outcome is None:
            _end()
        else:
            results.append(vars(outcome))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    # What commands import when they run; once is enough.
    import torch

    from regard.cli import main as regard_main

    main()

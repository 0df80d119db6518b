"""Commands forked by the server behave like subprocesses, and have no privileges."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.client import Call, Outcome, Server, chown_to_nobody, environment
from hostile.server import drop_privileges

STREAMS = {
    "show settings >&-": {"stdout": "closed"},
    "show settings >/dev/full": {"stdout": "file:/dev/full"},
    "translate nowhere 2>/dev/full": {"stderr": "file:/dev/full"},
    "score --nonsense": {},
    "--version <&- >&- 2>&-": {"stdin": "closed", "stdout": "closed", "stderr": "closed"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


def forked(server: Server, folder: Path, arguments: list[str], streams: dict[str, str]) -> Outcome:
    case = folder / "case"
    case.mkdir()
    folder.chmod(0o755)
    chown_to_nobody(folder)
    return server.run(Call(tuple(arguments), case, **streams))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", STREAMS)
def test_status_and_output_match_a_subprocess(
    line: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arguments = [part for part in line.split() if not set(part) & set("<>")]
    outcome = forked(server, tmp_path_factory.mktemp("forked"), arguments, STREAMS[line])
    shell = f"{sys.executable} -m regard {line}"
    real = subprocess.run(shell, shell=True, capture_output=True, env=environment(), check=False)
    assert outcome.status == real.returncode
    assert outcome.out == real.stdout
    assert outcome.err == real.stderr.decode()


def test_hostile_commands_have_no_privileges() -> None:
    child = os.fork()
    if child == 0:
        drop_privileges()
        harmless = os.getuid() != 0 and not os.access("/dev", os.W_OK)
        os._exit(0 if harmless else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

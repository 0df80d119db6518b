"""Commands that the server forks end as those of a shell do, and never have privileges."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostile.client import Call, Ended, Server, environment, give_away
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
    with Server() as made:
        yield made


def forked(server: Server, folder: Path, words: list[str], streams: dict[str, str]) -> Ended:
    place = folder / "case"
    place.mkdir()
    folder.chmod(0o755)
    give_away(folder)
    return server.run(Call(tuple(words), place, **streams))  # type: ignore[arg-type]


@pytest.mark.parametrize("line", STREAMS)
def test_status_and_words_are_those_of_a_shell(
    line: str, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    words = [word for word in line.split() if not set(word) & set("<>")]
    ended = forked(server, tmp_path_factory.mktemp("forked"), words, STREAMS[line])
    shell = f"{sys.executable} -m regard {line}"
    real = subprocess.run(shell, shell=True, capture_output=True, env=environment(), check=False)
    assert ended.status == real.returncode
    assert ended.out == real.stdout
    assert ended.err == real.stderr.decode()


def test_hostile_commands_have_no_privileges() -> None:
    child = os.fork()
    if child == 0:
        drop_privileges()
        harmless = os.getuid() != 0 and not os.access("/dev", os.W_OK)
        os._exit(0 if harmless else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""All groups of cases, how many of each are run, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostile import file_cases, kit, system_cases, text_cases, word_cases
from hostile.cases import Case, played, sampled
from hostile.client import Server
from hostile.scenes import Scene, all_scenes
from hostile.stage import Reference, Stage

Generator = Callable[[Path, dict[str, Scene]], Iterator[Case]]


@dataclass(frozen=True)
class Group:
    """Cases of one sort, and how many of them a long and a short run take."""

    generate: Generator
    long: int
    short: int


def _bytes(kit: Path, scenes: dict[str, Scene]) -> Iterator[Case]:
    yield from file_cases.byte_cases(kit, [*scenes.values()])
    yield from file_cases.lock_cases(kit, [*scenes.values()])


def _streams(kit: Path, scenes: dict[str, Scene]) -> Iterator[Case]:
    yield from system_cases.stream_cases([*scenes.values()])
    yield from system_cases.environment_cases([*scenes.values()])


GROUPS: dict[str, Group] = {
    "json": Group(lambda kit, s: file_cases.json_cases(kit, [*s.values()]), 400, 24),
    "bytes": Group(_bytes, 400, 24),
    "weights": Group(lambda kit, s: file_cases.weight_cases(kit, [*s.values()]), 150, 12),
    "options": Group(lambda kit, s: word_cases.option_cases([*s.values()]), 400, 24),
    "settings": Group(lambda kit, s: word_cases.setting_cases(s), 400, 12),
    "arguments": Group(lambda kit, s: word_cases.argument_cases(kit, [*s.values()]), 120, 12),
    "text": Group(lambda kit, s: text_cases.text_cases([*s.values()]), 120, 12),
    "streams": Group(_streams, 140, 12),
    "disks": Group(lambda kit, s: system_cases.disk_cases([*s.values()]), 80, 8),
    "concurrent": Group(lambda kit, s: system_cases.concurrent_cases([*s.values()]), 47, 5),
    "kills": Group(lambda kit, s: system_cases.signal_cases([*s.values()]), 60, 5),
}


class Suite:
    """The server and the kit, and what was found with them."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server, self.seed = server, seed
        self._kit = kit.made(server)
        self._references: dict[str, Reference] = {}

    def cases(self, group: str, count: int) -> list[Case]:
        """A sample of a group."""
        return sampled(self._every(group), count, self.seed)

    def named(self, name: str) -> Case:
        """One case."""
        return next(case for case in self._every(name.split("/", 1)[0]) if case.name == name)

    def _every(self, group: str) -> Iterable[Case]:
        """All cases of a group; of equal names, the last."""
        every = GROUPS[group].generate(self._kit, all_scenes())
        return {case.name: case for case in every}.values()

    def reference(self, scene: Scene) -> None:
        """Run a scene as it is; it has to succeed."""
        stage = Stage(self._kit, self._server, self._references)
        try:
            stage.reference(scene)
        finally:
            stage.close()

    def problems(self, case: Case) -> list[str]:
        """What is wrong after a case; nothing, if all is well."""
        stage = Stage(self._kit, self._server, self._references)
        try:
            return played(case, stage, self.seed)
        finally:
            stage.close()


@contextmanager
def opened(seed: int) -> Iterator[Suite]:
    """A suite with a server of its own."""
    with Server() as server:
        yield Suite(server, seed)


def command(case: Case, seed: int) -> str:
    """A line for a shell that runs one case again."""
    quoted = case.name.replace("'", "'\\''")
    return f"PYTHONPATH=src:tests .venv/bin/python -m hostile --seed {seed} --case '{quoted}'"

"""All groups of cases, their sample sizes, and the suite that runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hostile import command_line_cases, file_cases, fixtures, system_cases, text_cases
from hostile.cases import Case, run_case, sampled
from hostile.client import Server
from hostile.sandbox import Reference, Sandbox
from hostile.scenarios import Scenario, all_scenarios

Generator = Callable[[Path, dict[str, Scenario]], Iterator[Case]]


@dataclass(frozen=True)
class Group:
    """A group of cases, and the sizes of its long and short sample."""

    generate: Generator
    long: int
    short: int


def _bytes(fixtures: Path, scenarios: dict[str, Scenario]) -> Iterator[Case]:
    yield from file_cases.byte_cases(fixtures, [*scenarios.values()])
    yield from file_cases.lock_cases(fixtures, [*scenarios.values()])


def _streams(fixtures: Path, scenarios: dict[str, Scenario]) -> Iterator[Case]:
    yield from system_cases.stream_cases([*scenarios.values()])
    yield from system_cases.environment_cases([*scenarios.values()])


GROUPS: dict[str, Group] = {
    "json": Group(lambda fixtures, s: file_cases.json_cases(fixtures, [*s.values()]), 400, 24),
    "bytes": Group(_bytes, 400, 24),
    "weights": Group(lambda fixtures, s: file_cases.weight_cases(fixtures, [*s.values()]), 150, 12),
    "options": Group(lambda fixtures, s: command_line_cases.option_cases([*s.values()]), 400, 24),
    "settings": Group(lambda fixtures, s: command_line_cases.setting_cases(s), 400, 12),
    "arguments": Group(
        lambda fixtures, s: command_line_cases.argument_cases(fixtures, [*s.values()]), 120, 12
    ),
    "text": Group(lambda fixtures, s: text_cases.text_cases([*s.values()]), 120, 12),
    "streams": Group(_streams, 140, 12),
    "disks": Group(lambda fixtures, s: system_cases.disk_cases([*s.values()]), 80, 8),
    "concurrent": Group(lambda fixtures, s: system_cases.concurrent_cases([*s.values()]), 47, 5),
    "kills": Group(lambda fixtures, s: system_cases.signal_cases([*s.values()]), 60, 5),
}


class Suite:
    """Runs cases with a server and fixtures."""

    def __init__(self, server: Server, seed: int) -> None:
        self._server, self.seed = server, seed
        self._fixtures = fixtures.build_fixtures(server)
        self._references: dict[str, Reference] = {}

    def cases(self, group: str, count: int) -> list[Case]:
        """A sample of a group."""
        return sampled(self._every(group), count, self.seed)

    def named(self, name: str) -> Case:
        """The case of this name."""
        return next(case for case in self._every(name.split("/", 1)[0]) if case.name == name)

    def _every(self, group: str) -> Iterable[Case]:
        """All cases of a group; of equal names, the last."""
        every = GROUPS[group].generate(self._fixtures, all_scenarios())
        return {case.name: case for case in every}.values()

    def reference(self, scenario: Scenario) -> None:
        """Run an unmodified scenario, which must succeed."""
        sandbox = Sandbox(self._fixtures, self._server, self._references)
        try:
            sandbox.reference(scenario)
        finally:
            sandbox.close()

    def problems(self, case: Case) -> list[str]:
        """Run a case and return its problems."""
        sandbox = Sandbox(self._fixtures, self._server, self._references)
        try:
            return run_case(case, sandbox, self.seed)
        finally:
            sandbox.close()


@contextmanager
def opened(seed: int) -> Iterator[Suite]:
    """A suite with its own server."""
    with Server() as server:
        yield Suite(server, seed)


def command(case: Case, seed: int) -> str:
    """A shell command that repeats a case."""
    quoted = case.name.replace("'", "'\\''")
    return f"PYTHONPATH=src:tests .venv/bin/python -m hostile --seed {seed} --case '{quoted}'"

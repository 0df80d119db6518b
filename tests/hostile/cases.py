"""Cases, and sampling of them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hostile import checks
from hostile.sandbox import Sandbox, tree
from hostile.scenarios import Scenario

Runner = Callable[[Sandbox, random.Random], checks.Problems]


@dataclass(frozen=True)
class Case:
    """A command with a hostile input or environment."""

    name: str  # group/scenario/..., which identifies the case
    stratum: str  # samples cover all strata
    run: Runner

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.split("/", 1)[0]


def sampled(cases: Iterable[Case], count: int, seed: int) -> list[Case]:
    """A sample of cases, stratified."""
    strata: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        strata[case.stratum].append(case)
    for name, members in strata.items():
        random.Random(f"{seed}/{name}").shuffle(members)
    order = sorted(strata)
    random.Random(seed).shuffle(order)
    return [*islice(_interleave([strata[name] for name in order]), count)]


def _interleave(strata: list[list[Case]]) -> Iterator[Case]:
    for number in range(max(map(len, strata), default=0)):
        for members in strata:
            if number < len(members):
                yield members[number]


def run_case(case: Case, sandbox: Sandbox, seed: int) -> checks.Problems:
    """Run a case and return its problems."""
    return case.run(sandbox, random.Random(f"{seed}/{case.name}"))


def command_runner(
    scenario: Scenario,
    *,
    prepare: Callable[[Sandbox, random.Random], None] | None = None,
    arguments: tuple[str, ...] = (),
    is_strict: bool = False,
    must_fail: bool = False,
    outputs: tuple[str, ...] | None = None,
    statuses: tuple[int, ...] = (0, 2),
    **changes: Any,
) -> Runner:
    """A runner that modifies the files of a scenario, runs a command, and checks the outcome."""

    def run(sandbox: Sandbox, draw: random.Random) -> checks.Problems:
        sandbox.set_up(scenario)
        if prepare is not None:
            prepare(sandbox, draw)
        before = tree(sandbox.folder)
        (outcome,) = sandbox.run(sandbox.call(scenario, arguments, **changes))
        after = tree(sandbox.folder)
        problems = checks.check_command(outcome, scenario, statuses=statuses)
        problems += checks.check_files(
            before, after, scenario.outputs if outputs is None else outputs
        )
        if must_fail and outcome.status == 0:
            problems.append("accepted without an error")
        if is_strict and not problems:
            problems += checks.check_result(sandbox, scenario, outcome, before)
        return problems

    return run

"""Hostile input tests: generated commands succeed, or fail with one message and status 2.

A fixed sample runs with all tests, all groups at length with `make test-long`. Other samples:
REGARD_HOSTILE_SEED=7, REGARD_HOSTILE_COUNT=1000 (cases of each group). A failure names the command
line that repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hostile.scenarios import all_scenarios
from hostile.suite import GROUPS, Suite, command, opened

SEED = int(os.environ.get("REGARD_HOSTILE_SEED", "1"))
COUNT = int(os.environ.get("REGARD_HOSTILE_COUNT", "0"))
PARTS = 4  # of a group, for parallel runs


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    with opened(SEED) as suite:
        yield suite


def check(suite: Suite, group: str, count: int, part: int, parts: int) -> None:
    """Run a part of a group's sample and report every failure at once."""
    failures = []
    cases = suite.cases(group, COUNT or count)[part::parts]
    for case in cases:
        problems = suite.problems(case)
        if problems:
            failures.append("\n  ".join([command(case, SEED), *problems]))
    if failures:
        pytest.fail(
            f"{len(failures)} of {len(cases)} cases:\n" + "\n".join(failures), pytrace=False
        )


@pytest.mark.parametrize("group", GROUPS)
def test_sampled_cases_fail_cleanly(suite: Suite, group: str) -> None:
    check(suite, group, GROUPS[group].short, 0, 1)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("group", GROUPS)
def test_all_cases_fail_cleanly(suite: Suite, group: str, part: int) -> None:
    check(suite, group, GROUPS[group].long, part, PARTS)


@pytest.mark.long
def test_every_scene_succeeds_unmodified(suite: Suite) -> None:
    for scenario in all_scenarios().values():
        suite.reference(scenario)


def test_there_are_enough_cases() -> None:
    assert sum(group.long for group in GROUPS.values()) >= 2000

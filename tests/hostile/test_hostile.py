"""Generated hostile commands: each ends in success, or in one sentence with status 2.

A fixed sample runs with all tests, all groups at length with `make test-long`. Other samples:
REGARD_HOSTILE_SEED=7, REGARD_HOSTILE_COUNT=1000 (cases of each group). A failure names the command
line that repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from hostile.scenes import all_scenes
from hostile.suite import GROUPS, Suite, command, opened

SEED = int(os.environ.get("REGARD_HOSTILE_SEED", "1"))
COUNT = int(os.environ.get("REGARD_HOSTILE_COUNT", "0"))
PARTS = 4  # of a group, so that several processes share the work


@pytest.fixture(scope="session")
def suite() -> Iterator[Suite]:
    with opened(SEED) as made:
        yield made


def check(suite: Suite, group: str, count: int, part: int, parts: int) -> None:
    """Run a part of a group's sample and report every failure at once."""
    failures = []
    cases = suite.cases(group, COUNT or count)[part::parts]
    for case in cases:
        found = suite.problems(case)
        if found:
            failures.append("\n  ".join([command(case, SEED), *found]))
    if failures:
        pytest.fail(
            f"{len(failures)} of {len(cases)} cases:\n" + "\n".join(failures), pytrace=False
        )


@pytest.mark.parametrize("group", GROUPS)
def test_a_sample_ends_well(suite: Suite, group: str) -> None:
    check(suite, group, GROUPS[group].short, 0, 1)


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("group", GROUPS)
def test_every_case_ends_well(suite: Suite, group: str, part: int) -> None:
    check(suite, group, GROUPS[group].long, part, PARTS)


@pytest.mark.long
def test_every_scene_succeeds_if_nothing_is_changed(suite: Suite) -> None:
    for scene in all_scenes().values():
        suite.reference(scene)


def test_there_are_enough_cases() -> None:
    assert sum(group.long for group in GROUPS.values()) >= 2000

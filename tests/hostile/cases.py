"""Cases, and the sample of them that is run."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hostile import judge
from hostile.scenes import Scene
from hostile.stage import Stage, tree

Play = Callable[[Stage, random.Random], judge.Problems]


@dataclass(frozen=True)
class Case:
    """Something hostile that is done to a command."""

    name: str  # group/scene/..., enough to make it again
    stratum: str  # each has its part in a sample
    play: Play

    @property
    def group(self) -> str:
        """The first part of the name."""
        return self.name.split("/", 1)[0]


def sampled(cases: Iterable[Case], count: int, seed: int) -> list[Case]:
    """So many cases, from all strata in turn."""
    strata: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        strata[case.stratum].append(case)
    for name, members in strata.items():
        random.Random(f"{seed}/{name}").shuffle(members)
    order = sorted(strata)
    random.Random(seed).shuffle(order)
    return [*islice(_in_turn([strata[name] for name in order]), count)]


def _in_turn(strata: list[list[Case]]) -> Iterator[Case]:
    for number in range(max(map(len, strata), default=0)):
        for members in strata:
            if number < len(members):
                yield members[number]


def played(case: Case, stage: Stage, seed: int) -> judge.Problems:
    """What is wrong after a case."""
    return case.play(stage, random.Random(f"{seed}/{case.name}"))


def one_command(
    scene: Scene,
    *,
    prepare: Callable[[Stage, random.Random], None] | None = None,
    words: tuple[str, ...] = (),
    is_strict: bool = False,
    must_fail: bool = False,
    outputs: tuple[str, ...] | None = None,
    statuses: tuple[int, ...] = (0, 2),
    **changes: Any,
) -> Play:
    """Change the files of a scene, run its command or other words, and judge both."""

    def play(stage: Stage, draw: random.Random) -> judge.Problems:
        stage.set_up(scene)
        if prepare is not None:
            prepare(stage, draw)
        before = tree(stage.folder)
        (ended,) = stage.run(stage.call(scene, words, **changes))
        after = tree(stage.folder)
        found = judge.of_command(ended, scene, statuses=statuses)
        found += judge.of_files(before, after, scene.outputs if outputs is None else outputs)
        if must_fail and ended.status == 0:
            found.append("accepted without a word")
        if is_strict and not found:
            found += judge.of_result(stage, scene, ended, before)
        return found

    return play

"""Alignments as links between words: made of both directions, written and read.

A link (i, j) says that the source's word i and the target's word j belong together. One direction
says where each word comes from; two directions seldom agree, and a rule makes links of both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Literal, get_args

from regard.data.aligner import Ids
from regard.errors import DataError

Rule = Literal["forward", "backward", "intersection", "union", "grow-diag-final-and"]
Link = tuple[int, int]
Links = set[Link]
RULES: tuple[Rule, ...] = get_args(Rule)
_AROUND = [(i, j) for i, j in product((-1, 0, 1), repeat=2) if i or j]


def links_of(forward: Ids, backward: Ids, rule: Rule) -> Links:
    """Of the place in the source of each target word, and the other way round; -1: none."""
    one = {(i, j) for j, i in enumerate(forward.tolist()) if i >= 0}
    other = {(i, j) for i, j in enumerate(backward.tolist()) if j >= 0}
    if rule == "grow-diag-final-and":
        return _grown(one, other)
    rules = {"forward": one, "backward": other, "intersection": one & other, "union": one | other}
    return rules[rule]


def _grown(one: Links, other: Links) -> Links:
    """Koehn's rule (Koehn et al., 2005): from the intersection, grow towards the union.

    A link of either direction is added beside one that is there, if one of its words has none yet;
    at last, wherever both words have none.
    """
    links = one & other
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    fresh, either = sorted(links), one | other
    while fresh:
        i, j = fresh.pop(0)
        for down, right in _AROUND:
            near = i + down, j + right
            is_alone = near[0] not in sources or near[1] not in targets
            if is_alone and near in either and near not in links:
                add(near)
                fresh.append(near)
    for link in [*sorted(one), *sorted(other)]:
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return links


def heads_of(links: Links, forward: Ids) -> list[int]:
    """The one source word of each target word: the forward direction's, if that is a link.

    Else it is the first of its links; -1 if it has none.
    """
    first: dict[int, int] = {j: i for i, j in sorted(links, reverse=True)}
    own = enumerate(forward.tolist())
    return [i if (i, j) in links else first.get(j, -1) for j, i in own]


def pharaoh(links: Iterable[Link]) -> str:
    """Such as "0-0 1-2": the source's word before the target's, from 0 on."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def parsed(line: str, where: str) -> tuple[Links, Links]:
    """The sure links of a line, and all possible ones: "1-2" is sure and "1p2" is not."""
    sure, possible = set(), set()
    for word in line.split():
        match = re.fullmatch(r"(\d+)([-p?])(\d+)", word)
        if not match:
            raise DataError(
                f"{where}: {word!r} is no link. Write the source's word and the target's, from 0 "
                "on, as 1-2, or 1p2 if it is only possible."
            )
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible

"""Word alignments as links: symmetrization of two directions, and the Pharaoh format.

A link (i, j) aligns source word i and target word j. An aligner of one direction aligns each word
to at most one other; symmetrization combines both directions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Literal, get_args

from regard.data.aligner import Ids
from regard.errors import DataError

Symmetrization = Literal["forward", "backward", "intersection", "union", "grow-diag-final-and"]
Link = tuple[int, int]
Links = set[Link]
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)
_NEIGHBORS = [(i, j) for i, j in product((-1, 0, 1), repeat=2) if i or j]


def symmetrize(forward: Ids, backward: Ids, method: Symmetrization) -> Links:
    """Links from the source position of each target word and vice versa; -1: unaligned."""
    first = {(i, j) for j, i in enumerate(forward.tolist()) if i >= 0}
    second = {(i, j) for i, j in enumerate(backward.tolist()) if j >= 0}
    if method == "grow-diag-final-and":
        return _grow_diag_final_and(first, second)
    results = {
        "forward": first,
        "backward": second,
        "intersection": first & second,
        "union": first | second,
    }
    return results[method]


def _grow_diag_final_and(first: Links, second: Links) -> Links:
    """Grow from the intersection towards the union (Koehn et al., 2005).

    Links of the union that neighbor a link are added if one of their words is unaligned; finally,
    links of either direction are added if both words are unaligned.
    """
    links = first & second
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    queue, union = sorted(links), first | second
    while queue:
        i, j = queue.pop(0)
        for down, right in _NEIGHBORS:
            neighbor = i + down, j + right
            is_unaligned = neighbor[0] not in sources or neighbor[1] not in targets
            if is_unaligned and neighbor in union and neighbor not in links:
                add(neighbor)
                queue.append(neighbor)
    for link in [*sorted(first), *sorted(second)]:
        if link[0] not in sources and link[1] not in targets:
            add(link)
    return links


def links_to_source_positions(links: Links, forward: Ids) -> list[int]:
    """One source position per target word; -1 if it is unaligned.

    This is the forward position if it is among the links, else the first linked position.
    """
    first: dict[int, int] = {j: i for i, j in sorted(links, reverse=True)}
    alignment = enumerate(forward.tolist())
    return [i if (i, j) in links else first.get(j, -1) for j, i in alignment]


def to_pharaoh(links: Iterable[Link]) -> str:
    """Links in Pharaoh format, such as "0-0 1-2": source and target positions from 0 on."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def parse_pharaoh(line: str, where: str) -> tuple[Links, Links]:
    """Parse sure and possible links of a line: "1-2" is sure, "1p2" only possible."""
    sure, possible = set(), set()
    for item in line.split():
        match = re.fullmatch(r"(\d+)([-p?])(\d+)", item)
        if not match:
            raise DataError(
                f"{where}: {item!r} is not a link. Use source and target positions from 0 on, such "
                "as 1-2, or 1p2 for a possible link."
            )
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return sure, possible

"""Symmetrization and the Pharaoh format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.aligner import Ids
from regard.data.alignments import (
    SYMMETRIZATIONS,
    Links,
    Symmetrization,
    links_to_source_positions,
    parse_pharaoh,
    symmetrize,
    to_pharaoh,
)
from regard.errors import DataError


def ids(*positions: int) -> Ids:
    return np.array(positions, dtype=np.int64)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("forward", "0-0 1-1 1-2 3-3"),
        ("backward", "0-0 1-1 2-2 3-0"),
        ("intersection", "0-0 1-1"),
        ("union", "0-0 1-1 1-2 2-2 3-0 3-3"),
        # 1-2 neighbors 1-1, and target word 2 is unaligned; then 2-2 neighbors both;
        # then 3-3 neighbors 2-2; 3-0 has no neighbor, and both of its words are aligned.
        ("grow-diag-final-and", "0-0 1-1 1-2 2-2 3-3"),
    ],
)
def test_symmetrization_examples(method: Symmetrization, expected: str) -> None:
    assert to_pharaoh(symmetrize(ids(0, 1, 1, 3), ids(0, 1, 2, 0), method)) == expected


def test_grow_diag_final_and_links_unaligned_words() -> None:
    # The intersection is empty: the forward link is added first, and 1-0 then has no
    # unaligned target word, while 2-2 has.
    forward, backward = ids(0, -1, -1), ids(-1, 0, 2)
    assert symmetrize(forward, backward, "grow-diag-final-and") == {(0, 0), (2, 2)}


@st.composite
def directions(draw: st.DrawFn) -> tuple[Ids, Ids]:
    sources, targets = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    forward = draw(st.lists(st.integers(-1, sources - 1), min_size=targets, max_size=targets))
    backward = draw(st.lists(st.integers(-1, targets - 1), min_size=sources, max_size=sources))
    return ids(*forward), ids(*backward)


@given(directions())
def test_grow_diag_is_between_intersection_and_union(both: tuple[Ids, Ids]) -> None:
    links: dict[Symmetrization, Links] = {m: symmetrize(*both, m) for m in SYMMETRIZATIONS}
    grown, union = links["grow-diag-final-and"], links["union"]
    assert links["intersection"] <= grown <= union
    assert links["forward"] | links["backward"] == union
    sources, targets = {i for i, _ in grown}, {j for _, j in grown}
    assert all(i in sources or j in targets for i, j in union)  # all possible links are added


@given(directions(), st.sampled_from(SYMMETRIZATIONS))
def test_each_target_word_gets_one_of_its_linked_positions(
    both: tuple[Ids, Ids], method: Symmetrization
) -> None:
    links = symmetrize(*both, method)
    positions = links_to_source_positions(links, both[0])
    assert len(positions) == len(both[0])
    for j, position in enumerate(positions):
        linked = [i for i, other in links if other == j]
        assert position == (
            -1 if not linked else both[0][j] if both[0][j] in linked else min(linked)
        )


@given(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_pharaoh_format_round_trips(links: Links) -> None:
    assert parse_pharaoh(to_pharaoh(links), "line") == (links, links)


def test_possible_links_and_invalid_links() -> None:
    assert parse_pharaoh(" 0-0 1p2 3?1 ", "line") == ({(0, 0)}, {(0, 0), (1, 2), (3, 1)})
    for bad in ("0-", "a-1", "1-2-3", "1:2"):
        with pytest.raises(DataError, match=r"gold, line 3: .* is not a link. Use"):
            parse_pharaoh(f"0-0 {bad}", "gold, line 3")

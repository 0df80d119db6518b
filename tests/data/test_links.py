"""Two directions become links by rules that can be followed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.aligner import Ids
from regard.data.links import RULES, Links, Rule, heads_of, links_of, parsed, pharaoh
from regard.errors import DataError


def ids(*places: int) -> Ids:
    return np.array(places, dtype=np.int64)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("forward", "0-0 1-1 1-2 3-3"),
        ("backward", "0-0 1-1 2-2 3-0"),
        ("intersection", "0-0 1-1"),
        ("union", "0-0 1-1 1-2 2-2 3-0 3-3"),
        # 1-2 stands beside 1-1 and word 2 has nothing yet; then 2-2 beside both, for source word 2;
        # 3-3 beside 2-2; 3-0 stands beside nothing, and both of its words have links by then.
        ("grow-diag-final-and", "0-0 1-1 1-2 2-2 3-3"),
    ],
)
def test_rules_by_hand(rule: Rule, expected: str) -> None:
    assert pharaoh(links_of(ids(0, 1, 1, 3), ids(0, 1, 2, 0), rule)) == expected


def test_at_last_words_without_any_link_get_one() -> None:
    # Nothing is agreed upon, so nothing grows: the forward link comes first, and 1-0 then has no
    # free target word, while 2-2 has.
    forward, backward = ids(0, -1, -1), ids(-1, 0, 2)
    assert links_of(forward, backward, "grow-diag-final-and") == {(0, 0), (2, 2)}


@st.composite
def directions(draw: st.DrawFn) -> tuple[Ids, Ids]:
    sources, targets = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    forward = draw(st.lists(st.integers(-1, sources - 1), min_size=targets, max_size=targets))
    backward = draw(st.lists(st.integers(-1, targets - 1), min_size=sources, max_size=sources))
    return ids(*forward), ids(*backward)


@given(directions())
def test_what_grows_lies_between_intersection_and_union(both: tuple[Ids, Ids]) -> None:
    found: dict[Rule, Links] = {rule: links_of(*both, rule) for rule in RULES}
    grown, union = found["grow-diag-final-and"], found["union"]
    assert found["intersection"] <= grown <= union
    assert found["forward"] | found["backward"] == union
    sources, targets = {i for i, _ in grown}, {j for _, j in grown}
    assert all(i in sources or j in targets for i, j in union)  # none is left out that was free


@given(directions(), st.sampled_from(RULES))
def test_each_target_word_has_one_head_among_its_links(both: tuple[Ids, Ids], rule: Rule) -> None:
    links = links_of(*both, rule)
    heads = heads_of(links, both[0])
    assert len(heads) == len(both[0])
    for j, head in enumerate(heads):
        own = [i for i, other in links if other == j]
        assert head == (-1 if not own else both[0][j] if both[0][j] in own else min(own))


@given(st.sets(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_links_are_read_as_they_were_written(links: Links) -> None:
    assert parsed(pharaoh(links), "here") == (links, links)


def test_possible_links_are_not_sure() -> None:
    assert parsed(" 0-0 1p2 3?1 ", "here") == ({(0, 0)}, {(0, 0), (1, 2), (3, 1)})
    for bad in ("0-", "a-1", "1-2-3", "1:2"):
        with pytest.raises(DataError, match=r"gold, line 3: .* is no link. Write"):
            parsed(f"0-0 {bad}", "gold, line 3")

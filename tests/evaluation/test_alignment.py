"""The alignment error rate, worked out by hand; and the view of attention that has the lowest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.data.links import Links, pharaoh
from regard.decoding.attention_maps import Seen, View
from regard.errors import DataError
from regard.evaluation.alignment import (
    Agreement,
    Gold,
    agreement,
    error_rates,
    read_gold,
    taken_as_gold,
)

SURE, POSSIBLE = {(0, 0), (1, 1)}, {(0, 0), (1, 1), (2, 1), (2, 2)}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (SURE, Agreement(1.0, 1.0, 0.0)),
        (POSSIBLE, Agreement(1.0, 1.0, 0.0)),  # what is only possible may be found or not
        ({(0, 0)}, Agreement(1.0, 0.5, 1 - 2 / 3)),
        ({(0, 0), (2, 2), (0, 2)}, Agreement(2 / 3, 0.5, 1 - (1 + 2) / (3 + 2))),
        ({(0, 2)}, Agreement(0.0, 0.0, 1.0)),
        (set(), Agreement(1.0, 0.0, 1.0)),
    ],
)
def test_by_hand(found: Links, expected: Agreement) -> None:
    one = agreement([found], [Gold(SURE, POSSIBLE)])
    assert (one.precision, one.recall) == pytest.approx((expected.precision, expected.recall))
    assert one.error_rate == pytest.approx(expected.error_rate)


def test_links_are_counted_over_all_pairs() -> None:
    gold = [Gold(SURE, POSSIBLE), Gold({(0, 0)}, {(0, 0)}), Gold(set(), set())]
    one = agreement([SURE, {(0, 1)}, set()], gold)
    assert (one.precision, one.recall) == pytest.approx((2 / 3, 2 / 3))
    assert one.error_rate == pytest.approx(1 - 4 / 6)
    assert agreement([set()], [Gold(set(), set())]) == Agreement(1.0, 1.0, 0.0)


def test_what_is_taken_as_gold_is_right() -> None:
    forward, backward = np.array([0, 1, 1]), np.array([0, 1])
    gold = taken_as_gold(forward, backward)
    assert (pharaoh(gold.sure), pharaoh(gold.possible)) == ("0-0 1-1", "0-0 1-1 1-2")


def test_every_view_gets_its_own_rate() -> None:
    rng = np.random.default_rng(1)
    seen = [
        Seen(rng.integers(0, 4, (2, 3, 3, 5)), rng.integers(0, 5, (2, 3, 3, 4))) for _ in range(6)
    ]
    right = View(reads=True, layer=2, head=None)
    gold = [
        Gold(links, links)
        for links in ({(i, j) for j, i in enumerate(one.through(right)[0])} for one in seen)
    ]
    rates = error_rates(seen, gold, "forward")
    assert len(rates) == 2 * 3 * 3
    assert rates[right] == 0
    assert [view for view, rate in rates.items() if rate < 0.3] == [right]
    nothing = error_rates(seen, gold, "forward", lambda number, links: set())
    assert set(nothing.values()) == {1.0}


def test_gold_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0 1p1\n\n")
    assert read_gold(path, [(2, 2), (1, 1)]) == [
        Gold({(0, 0)}, {(0, 0), (1, 1)}),
        Gold(set(), set()),
    ]
    with pytest.raises(DataError, match=r"has 2 lines, and the text has 1"):
        read_gold(path, [(2, 2)])
    with pytest.raises(DataError, match=r"gold, line 1: a link goes beyond the 2 and 1 words"):
        read_gold(path, [(2, 1), (1, 1)])

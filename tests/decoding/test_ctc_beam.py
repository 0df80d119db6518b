"""The search over readings against all paths, written out one by one."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from regard.decoding.ctc_beam import Place, best_readings


def some_places(seed: int, count: int, words: int) -> list[Place]:
    draw = random.Random(seed)
    places = []
    for _ in range(count):
        chances = [draw.random() for _ in range(words + 1)]
        blank, *others = (chance / sum(chances) for chance in chances)
        named = [(4 + number, chance) for number, chance in enumerate(others)]
        places.append(Place(blank, sorted(named, key=lambda one: -one[1])))
    return places


def all_readings(places: list[Place]) -> dict[tuple[int, ...], float]:
    """Every reading and its chance, path by path."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(*([(0, place.blank), *place.words] for place in places)):
        reading = tuple(w for w, _ in itertools.groupby(word for word, _ in path) if w)
        found[reading] = found.get(reading, 0.0) + math.prod(chance for _, chance in path)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_all_is_all_readings(seed: int) -> None:
    places = some_places(seed, 5, 3)
    expected = all_readings(places)
    found = best_readings(places, 10_000)
    assert len(found) == len(expected)
    for words, total in found:
        assert total == pytest.approx(math.log(expected[tuple(words)]), abs=1e-9)
    assert [total for _, total in found] == sorted((total for _, total in found), reverse=True)


def test_many_paths_outweigh_the_likeliest() -> None:
    """At each place a blank is likelier, but some word is written on more paths."""
    places = [Place(0.6, [(4, 0.4)])] * 2
    (words, total), *_ = best_readings(places, 4)
    assert words == [4]
    assert total == pytest.approx(math.log(1 - 0.36))


def test_long_sentences_do_not_vanish() -> None:
    places = [Place(1e-5, [(4 + number % 3, 1e-4)]) for number in range(400)]
    [(words, total), *_] = best_readings(places, 3)
    assert len(words) == 400
    assert total == pytest.approx(400 * math.log(1e-4), rel=1e-6)

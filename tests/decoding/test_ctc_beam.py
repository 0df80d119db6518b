"""The search over readings against all paths, written out one by one."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from regard.decoding.ctc_beam import Beams, Places, best_readings


def some_places(seed: int, sentences: int, count: int, words: int) -> Places:
    """Of each place the same words, from 4 on, in another order."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(sentences, count, words + 1, generator=generator, dtype=torch.float64)
    drawn /= drawn.sum(-1, keepdim=True)
    best = drawn[..., 1:].sort(descending=True)
    return Places(drawn[..., 0], best.indices + 4, best.values)


def all_readings(places: Places, sentence: int) -> dict[tuple[int, ...], float]:
    """Every reading of a sentence and its chance, path by path."""
    blank, words, chances = (part[sentence].tolist() for part in places)
    steps = [
        [(0, nothing), *zip(*own, strict=True)]
        for nothing, *own in zip(blank, words, chances, strict=True)
    ]
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(*steps):
        reading = tuple(w for w, _ in itertools.groupby(word for word, _ in path) if w)
        found[reading] = found.get(reading, 0.0) + math.prod(chance for _, chance in path)
    return found


def told(readings: Beams, sentence: int = 0) -> list[tuple[tuple[int, ...], float]]:
    """The readings that there are, and their log-probabilities."""
    words, lengths, totals = (
        part[sentence].tolist() for part in (readings.words, readings.lengths, readings.totals)
    )
    return [
        (tuple(own[:length]), total)
        for own, length, total in zip(words, lengths, totals, strict=True)
        if total > -math.inf
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_all_is_all_readings(seed: int) -> None:
    places = some_places(seed, 2, 5, 3)
    readings = best_readings(places, 400)
    for sentence in range(2):
        expected = all_readings(places, sentence)
        found = told(readings, sentence)
        assert dict(found).keys() == expected.keys()
        assert len(found) == len(expected)
        for words, total in found:
            assert total == pytest.approx(math.log(expected[words]), abs=1e-9)
        assert [total for _, total in found] == sorted((one[1] for one in found), reverse=True)


@pytest.mark.parametrize("beam_size", [2, 5])
def test_a_narrow_beam_never_finds_more_than_there_is(beam_size: int) -> None:
    places = some_places(7, 20, 6, 3)
    readings = best_readings(places, beam_size)
    for sentence in range(20):
        expected = all_readings(places, sentence)
        found = told(readings, sentence)
        assert len(dict(found)) == len(found) == beam_size  # no reading twice
        for words, total in found:
            assert total <= math.log(expected[words]) + 1e-9


def test_a_sentence_is_read_alike_alone_and_beside_longer_ones() -> None:
    places = some_places(8, 3, 9, 4)
    together = best_readings(places, 6)
    for sentence in range(3):
        alone = best_readings(Places(*(part[sentence : sentence + 1] for part in places)), 6)
        assert told(alone) == told(together, sentence)
    longer = Places(
        torch.cat([places.blank, torch.ones(3, 2, dtype=torch.float64)], 1),
        torch.cat([places.words, places.words[:, :2]], 1),
        torch.cat([places.chances, torch.zeros(3, 2, 4, dtype=torch.float64)], 1),
    )
    filled = best_readings(longer, 6)
    assert_close(filled.totals, together.totals)
    assert [told(filled, i)[0][0] for i in range(3)] == [told(together, i)[0][0] for i in range(3)]


def one_sentence(*places: tuple[float, list[tuple[int, float]]]) -> Places:
    return Places(
        torch.tensor([[blank for blank, _ in places]], dtype=torch.float64),
        torch.tensor([[[word for word, _ in words] for _, words in places]]),
        torch.tensor([[[chance for _, chance in words] for _, words in places]]).double(),
    )


def test_many_paths_outweigh_the_likeliest() -> None:
    """At each place a blank is likelier, but some word is written on more paths."""
    places = one_sentence(*[(0.6, [(4, 0.4)])] * 2)
    (words, total), *_ = told(best_readings(places, 4))
    assert words == (4,)
    assert total == pytest.approx(math.log(1 - 0.36))


def test_long_sentences_do_not_vanish() -> None:
    places = one_sentence(*((1e-5, [(4 + number % 3, 1e-4)]) for number in range(400)))
    [(words, total), *_] = told(best_readings(places, 3))
    assert len(words) == 400
    assert total == pytest.approx(400 * math.log(1e-4), rel=1e-6)


def test_nothing_at_all_can_still_be_read() -> None:
    """A model that is sure of a mark leaves neither a blank nor a word."""
    [(words, total), *_] = told(best_readings(one_sentence((0.0, [(4, 0.0)])), 2))
    assert words == ()
    assert math.isfinite(total)

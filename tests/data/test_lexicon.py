"""Model 1 by arrays is model 1 by the book, and finds what stands for what."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lexicon import likeliest
from regard.data.rows import Sentences
from regard.data.store import Part, SideWriter
from regard.text.special import SPECIAL

WORDS = 12
NOTHING = np.array([], dtype=np.int64)
Pair = tuple[list[int], list[int]]


def part_of(folder: Path, pairs: list[Pair]) -> Part:
    sides = []
    for number, side in enumerate(("source", "target")):
        with SideWriter(folder, side, "uint16") as writer:
            for pair in pairs:
                writer.append(pair[number])
        sides.append(Sentences(folder, side, "uint16"))
    return Part(sides[0], sides[1], ())


def by_the_book(pairs: list[Pair], iterations: int) -> dict[int, dict[int, float]]:
    """t(target | source) with loops and dictionaries."""
    t: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(iterations):
        counts: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for word in target:
                total = sum(t[s][word] for s in [*source, SPECIAL.end])
                for s in [*source, SPECIAL.end]:
                    counts[s][word] += t[s][word] / total
        t = defaultdict(dict)
        for s, row in counts.items():
            t[s] = {word: count / sum(row.values()) for word, count in row.items()}
    return t


sentences = st.lists(st.integers(4, WORDS - 1), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8), st.integers(1, 5))
def test_arrays_say_what_loops_say(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], iterations: int
) -> None:
    part = part_of(tmp_path_factory.mktemp("part"), pairs)
    found = likeliest(part, (WORDS, WORDS), count=WORDS, without=NOTHING, iterations=iterations)
    expected = by_the_book(pairs, iterations)
    for source in range(WORDS):
        own = found[source][found[source] >= 0].tolist()
        row = {word: p for word, p in expected.get(source, {}).items() if p > 1e-6}
        assert set(row) <= set(own) <= set(expected.get(source, {}))
        probabilities = [expected[source][word] for word in own]
        # Rounding may turn round what is equally likely.
        assert probabilities == pytest.approx(sorted(probabilities, reverse=True), abs=1e-9)


def test_words_are_found_by_where_they_occur(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    pairs = []
    for _ in range(60):
        words = draw.permutation(np.arange(4, WORDS))[:4]
        pairs.append((words.tolist(), draw.permutation(words + 10).tolist()))
    found = likeliest(part_of(tmp_path, pairs), (WORDS, 30), count=1, without=NOTHING)
    assert found[4:, 0].tolist() == [word + 10 for word in range(4, WORDS)]
    assert found[:3].tolist() == [[-1]] * 3


def test_of_equals_the_smaller_id_comes_first(tmp_path: Path) -> None:
    part = part_of(tmp_path, [([4], [9, 7, 8])])
    found = likeliest(part, (WORDS, WORDS), count=2, without=NOTHING)
    assert found[4].tolist() == found[SPECIAL.end].tolist() == [7, 8]


def test_some_are_passed_over(tmp_path: Path) -> None:
    part = part_of(tmp_path, [([4], [7, 7, 8, 9])])
    found = likeliest(part, (WORDS, WORDS), count=2, without=np.array([7]))
    assert found[4].tolist() == [8, 9]

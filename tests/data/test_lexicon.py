"""IBM model 1: vectorized EM matches loops, and translations are best."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.lexicon import most_likely_targets
from regard.data.rows import SideReader
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
        sides.append(SideReader(folder, side, "uint16"))
    return Part(sides[0], sides[1], ())


def reference_em(pairs: list[Pair], iterations: int) -> dict[int, dict[int, float]]:
    """t(target | source) with loops and dictionaries."""
    t: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(iterations):
        counts: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for source, target in pairs:
            for word in target:
                total = sum(t[s][word] for s in [*source, SPECIAL.eos])
                for s in [*source, SPECIAL.eos]:
                    counts[s][word] += t[s][word] / total
        t = defaultdict(dict)
        for s, row in counts.items():
            t[s] = {word: count / sum(row.values()) for word, count in row.items()}
    return t


sentences = st.lists(st.integers(4, WORDS - 1), min_size=1, max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(sentences, sentences), min_size=1, max_size=8), st.integers(1, 5))
def test_vectorized_em_matches_loops(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], iterations: int
) -> None:
    part = part_of(tmp_path_factory.mktemp("part"), pairs)
    best = most_likely_targets(
        part, (WORDS, WORDS), count=WORDS, excluded=NOTHING, iterations=iterations
    )
    expected = reference_em(pairs, iterations)
    for source in range(WORDS):
        targets = best[source][best[source] >= 0].tolist()
        row = {word: p for word, p in expected.get(source, {}).items() if p > 1e-6}
        assert set(row) <= set(targets) <= set(expected.get(source, {}))
        probabilities = [expected[source][word] for word in targets]
        # Rounding may swap equally likely words.
        assert probabilities == pytest.approx(sorted(probabilities, reverse=True), abs=1e-9)


def test_translations_are_best_by_cooccurrence(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(60):
        words = rng.permutation(np.arange(4, WORDS))[:4]
        pairs.append((words.tolist(), rng.permutation(words + 10).tolist()))
    best = most_likely_targets(part_of(tmp_path, pairs), (WORDS, 30), count=1, excluded=NOTHING)
    assert best[4:, 0].tolist() == [word + 10 for word in range(4, WORDS)]
    assert best[:3].tolist() == [[-1]] * 3


def test_ties_are_ordered_by_id(tmp_path: Path) -> None:
    part = part_of(tmp_path, [([4], [9, 7, 8])])
    best = most_likely_targets(part, (WORDS, WORDS), count=2, excluded=NOTHING)
    assert best[4].tolist() == best[SPECIAL.eos].tolist() == [7, 8]


def test_excluded_targets_are_skipped(tmp_path: Path) -> None:
    part = part_of(tmp_path, [([4], [7, 7, 8, 9])])
    best = most_likely_targets(part, (WORDS, WORDS), count=2, excluded=np.array([7]))
    assert best[4].tolist() == [8, 9]

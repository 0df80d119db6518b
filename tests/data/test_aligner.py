"""Model 2 by arrays is model 2 by the book, and finds the words that belong together."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import aligner
from regard.data.aligner import NULL, BothWays, learn
from regard.data.links import links_of
from regard.data.rows import Rows

Sentence = list[int]


def rows(sentences: list[Sentence]) -> Rows:
    flat = np.array([word for sentence in sentences for word in sentence], dtype=np.int64)
    return Rows(flat, np.cumsum([0, *map(len, sentences)]))


def joint(
    source: Sentence, target: Sentence, j: int, t: dict[tuple[int, int], float], tension: float
) -> list[float]:
    """How likely target word j comes from nowhere, and from each source word."""
    near = [
        np.exp(-tension * abs((i + 0.5) / len(source) - (j + 0.5) / len(target)))
        for i in range(len(source))
    ]
    places = [NULL, *((1 - NULL) * weight / sum(near) for weight in near)]
    return [p * t[s, target[j]] for p, s in zip(places, [-1, *source], strict=True)]


def by_the_book(
    pairs: list[tuple[Sentence, Sentence]], tension: float
) -> dict[tuple[int, int], float]:
    """One iteration from t = 1, with loops and dictionaries: t of (source or -1, target)."""
    counts: dict[tuple[int, int], float] = defaultdict(lambda: 0.01)
    for source, target in pairs:
        for j, word in enumerate(target):
            shares = joint(source, target, j, defaultdict(lambda: 1.0), tension)
            for s, share in zip([-1, *source], shares, strict=True):
                counts[s, word] += share / sum(shares)
    totals: dict[int, float] = defaultdict(float)
    for (s, _), count in counts.items():
        totals[s] += count

    def digamma(x: float) -> float:
        return float(torch.special.digamma(torch.tensor(x, dtype=torch.float64)))

    return {
        (s, word): float(np.exp(digamma(count) - digamma(totals[s])))
        for (s, word), count in counts.items()
    }


sentences = st.lists(st.integers(0, 6), min_size=1, max_size=6)
some_pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@given(some_pairs)
def test_arrays_say_what_loops_say(pairs: list[tuple[Sentence, Sentence]]) -> None:
    source, target = rows([s for s, _ in pairs]), rows([t for _, t in pairs])
    found = learn(source, target, iterations=1)
    expected = by_the_book(pairs, 4.0)
    told = {
        (int(key) // found.words - 1, int(key) % found.words - 1): float(t)
        for key, t in zip(found.seen, found.t, strict=True)
    }
    assert told == pytest.approx(expected, rel=1e-5)
    for (s, t), heads in zip(pairs, found.heads(source, target), strict=True):
        for j, head in enumerate(heads.tolist()):
            likely = joint(s, t, j, expected, found.tension)
            assert likely[head + 1] == pytest.approx(max(likely), rel=1e-5)


def test_portions_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = known_corpus(60)
    whole = learn(source, target)
    monkeypatch.setattr(aligner, "_PORTION", 50)
    parts = learn(source, target)
    assert parts.tension == pytest.approx(whole.tension)
    np.testing.assert_allclose(parts.t, whole.t)
    for one, other in zip(parts.heads(source, target), whole.heads(source, target), strict=True):
        np.testing.assert_array_equal(one, other)


def known_corpus(count: int, *, seed: int = 3) -> tuple[Rows, Rows, list[set[tuple[int, int]]]]:
    """Words that become none, one or two others, neighbours that change places, and stray words."""
    draw = random.Random(seed)
    becomes = [[2 * word, 2 * word + 1][: draw.choice([0, 1, 1, 1, 1, 2])] for word in range(60)]
    sources, targets, gold = [], [], []
    for _ in range(count):
        source = [min(int(draw.expovariate(0.07)), 59) for _ in range(draw.randint(3, 12))]
        blocks = [[(i, word) for word in becomes[s]] for i, s in enumerate(source)]
        for i in range(len(blocks) - 1):
            if draw.random() < 0.15:
                blocks[i], blocks[i + 1] = blocks[i + 1], blocks[i]
        if draw.random() < 0.3:
            blocks.insert(draw.randint(0, len(blocks)), [(-1, 120 + draw.randrange(3))])
        words = [link for block in blocks for link in block]
        sources.append(source)
        targets.append([word for _, word in words])
        gold.append({(i, j) for j, (i, _) in enumerate(words) if i >= 0})
    return rows(sources), rows(targets), gold


def error(found: list[set[tuple[int, int]]], gold: list[set[tuple[int, int]]]) -> float:
    right = sum(len(one & other) for one, other in zip(found, gold, strict=True))
    return 1 - 2 * right / (sum(map(len, found)) + sum(map(len, gold)))


def test_known_alignments_are_found_and_the_right_direction_is_the_better() -> None:
    source, target, gold = known_corpus(1500)
    both = list(BothWays.learn(source, target).heads(source, target))
    errors = {
        rule: error([links_of(*heads, rule) for heads in both], gold)
        for rule in ("forward", "backward", "grow-diag-final-and")
    }
    assert errors["forward"] < 0.04  # target words come from one source word each, as in the model
    assert errors["forward"] < errors["backward"] < 0.15  # backwards some would need two
    assert errors["grow-diag-final-and"] < 0.1


def test_order_tightens_the_prior() -> None:
    draw = random.Random(1)
    source = [[draw.randrange(9) for _ in range(8)] for _ in range(300)]
    along = [[word + 20 for word in line] for line in source]
    anyhow = [draw.sample(line, len(line)) for line in along]
    assert learn(rows(source), rows(along)).tension > 8
    assert learn(rows(source), rows(anyhow)).tension < 3


def test_what_was_never_seen_is_aligned_by_place_and_empty_lines_to_nothing() -> None:
    learned = learn(rows([[0, 1], [1, 0]]), rows([[0, 1], [1, 0]]))
    source, target = rows([[7, 8, 9], [], [5]]), rows([[70, 80, 90], [3], []])
    assert [heads.tolist() for heads in learned.heads(source, target)] == [[0, 1, 2], [-1], []]
    for target_words, expected in ([], []), ([3], [-1]):
        [heads] = learned.heads(rows([[]]), rows([target_words]))
        assert heads.tolist() == expected


def test_of_a_huge_corpus_some_pairs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, gold = known_corpus(3000)
    everything = len(learn(source, target).seen)
    monkeypatch.setattr(aligner, "_MOST", 30_000)
    learned = BothWays.learn(source, target)
    assert len(learned.forward.seen) < 0.8 * everything
    found = [links_of(*heads, "forward") for heads in learned.heads(source, target)]
    assert error(found, gold) < 0.08

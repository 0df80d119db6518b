"""The word aligner: vectorized EM matches loops, and known alignments are recovered."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import aligner
from regard.data.aligner import NULL_PROBABILITY, BidirectionalAligner, train_aligner
from regard.data.alignments import symmetrize
from regard.data.rows import Rows

Sentence = list[int]


def rows(sentences: list[Sentence]) -> Rows:
    flat = np.array([word for sentence in sentences for word in sentence], dtype=np.int64)
    return Rows(flat, np.cumsum([0, *map(len, sentences)]))


def joint(
    source: Sentence, target: Sentence, j: int, t: dict[tuple[int, int], float], tension: float
) -> list[float]:
    """Joint probabilities of target word j with NULL and with each source word."""
    weights = [
        np.exp(-tension * abs((i + 0.5) / len(source) - (j + 0.5) / len(target)))
        for i in range(len(source))
    ]
    prior = [
        NULL_PROBABILITY,
        *((1 - NULL_PROBABILITY) * weight / sum(weights) for weight in weights),
    ]
    return [p * t[s, target[j]] for p, s in zip(prior, [-1, *source], strict=True)]


def reference_em(
    pairs: list[tuple[Sentence, Sentence]], tension: float
) -> dict[tuple[int, int], float]:
    """One iteration from t = 1, with loops and dictionaries: t of (source or -1, target)."""
    counts: dict[tuple[int, int], float] = defaultdict(lambda: 0.01)
    for source, target in pairs:
        for j, word in enumerate(target):
            joints = joint(source, target, j, defaultdict(lambda: 1.0), tension)
            for s, probability in zip([-1, *source], joints, strict=True):
                counts[s, word] += probability / sum(joints)
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
def test_vectorized_em_matches_loops(pairs: list[tuple[Sentence, Sentence]]) -> None:
    source, target = rows([s for s, _ in pairs]), rows([t for _, t in pairs])
    trained = train_aligner(source, target, iterations=1)
    expected = reference_em(pairs, 4.0)
    actual = {
        (int(key) // trained.target_size - 1, int(key) % trained.target_size - 1): float(t)
        for key, t in zip(trained.known_keys, trained.t, strict=True)
    }
    assert actual == pytest.approx(expected, rel=1e-5)
    for (s, t), positions in zip(pairs, trained.align(source, target), strict=True):
        for j, position in enumerate(positions.tolist()):
            probabilities = joint(s, t, j, expected, trained.tension)
            assert probabilities[position + 1] == pytest.approx(max(probabilities), rel=1e-5)


@given(some_pairs)
def test_mean_log_probs_match_loops(pairs: list[tuple[Sentence, Sentence]]) -> None:
    source, target = rows([s for s, _ in pairs]), rows([t for _, t in pairs])
    trained = train_aligner(source, target, iterations=1)
    t = reference_em(pairs, 4.0)
    expected = [
        np.mean([np.log(sum(joint(s, words, j, t, trained.tension))) for j in range(len(words))])
        for s, words in pairs
    ]
    actual = trained.mean_log_probs(source, target)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-12)


def test_chunking_does_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, _ = known_corpus(60)
    whole = train_aligner(source, target)
    monkeypatch.setattr(aligner, "_CHUNK_SIZE", 50)
    chunked = train_aligner(source, target)
    assert chunked.tension == pytest.approx(whole.tension)
    np.testing.assert_allclose(chunked.t, whole.t)
    for left, right in zip(chunked.align(source, target), whole.align(source, target), strict=True):
        np.testing.assert_array_equal(left, right)
    scores = whole.mean_log_probs(source, target)
    assert chunked.mean_log_probs(source, target) == pytest.approx(scores)


def known_corpus(count: int, *, seed: int = 3) -> tuple[Rows, Rows, list[set[tuple[int, int]]]]:
    """Words with zero to two translations, swapped neighbors, and inserted target words."""
    rng = random.Random(seed)
    translations = [
        [2 * word, 2 * word + 1][: rng.choice([0, 1, 1, 1, 1, 2])] for word in range(60)
    ]
    sources, targets, gold = [], [], []
    for _ in range(count):
        source = [min(int(rng.expovariate(0.07)), 59) for _ in range(rng.randint(3, 12))]
        blocks = [[(i, word) for word in translations[s]] for i, s in enumerate(source)]
        for i in range(len(blocks) - 1):
            if rng.random() < 0.15:
                blocks[i], blocks[i + 1] = blocks[i + 1], blocks[i]
        if rng.random() < 0.3:
            blocks.insert(rng.randint(0, len(blocks)), [(-1, 120 + rng.randrange(3))])
        words = [link for block in blocks for link in block]
        sources.append(source)
        targets.append([word for _, word in words])
        gold.append({(i, j) for j, (i, _) in enumerate(words) if i >= 0})
    return rows(sources), rows(targets), gold


def alignment_error(links: list[set[tuple[int, int]]], gold: list[set[tuple[int, int]]]) -> float:
    correct = sum(len(left & right) for left, right in zip(links, gold, strict=True))
    return 1 - 2 * correct / (sum(map(len, links)) + sum(map(len, gold)))


def test_known_alignments_are_recovered() -> None:
    source, target, gold = known_corpus(1500)
    both = list(BidirectionalAligner.train(source, target).align(source, target))
    errors = {
        method: alignment_error([symmetrize(*pair, method) for pair in both], gold)
        for method in ("forward", "backward", "grow-diag-final-and")
    }
    assert errors["forward"] < 0.04  # each target word has one source word, as in the model
    assert errors["forward"] < errors["backward"] < 0.15  # some source words have two target words
    assert errors["grow-diag-final-and"] < 0.1


def test_tension_is_high_for_monotonic_text() -> None:
    rng = random.Random(1)
    source = [[rng.randrange(9) for _ in range(8)] for _ in range(300)]
    monotonic = [[word + 20 for word in line] for line in source]
    shuffled = [rng.sample(line, len(line)) for line in monotonic]
    assert train_aligner(rows(source), rows(monotonic)).tension > 8
    assert train_aligner(rows(source), rows(shuffled)).tension < 3


def test_unseen_words_are_aligned_to_the_diagonal() -> None:
    trained = train_aligner(rows([[0, 1], [1, 0]]), rows([[0, 1], [1, 0]]))
    source, target = rows([[7, 8, 9], [], [5]]), rows([[70, 80, 90], [3], []])
    assert [positions.tolist() for positions in trained.align(source, target)] == [
        [0, 1, 2],
        [-1],
        [],
    ]
    for target_words, expected in ([], []), ([3], [-1]):
        [positions] = trained.align(rows([[]]), rows([target_words]))
        assert positions.tolist() == expected


def test_training_on_a_sample_of_a_large_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    source, target, gold = known_corpus(3000)
    all_pairs = len(train_aligner(source, target).known_keys)
    monkeypatch.setattr(aligner, "_MAX_CELLS", 30_000)
    trained = BidirectionalAligner.train(source, target)
    assert len(trained.forward.known_keys) < 0.8 * all_pairs
    links = [symmetrize(*pair, "forward") for pair in trained.align(source, target)]
    assert alignment_error(links, gold) < 0.08

"""CTC prefix beam search matches an enumeration of all paths."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from regard.decoding.ctc_beam_search import PrefixBeams, TopProbabilities, prefix_beam_search


def random_probabilities(seed: int, sentences: int, length: int, tokens: int) -> TopProbabilities:
    """Random probabilities of the same tokens, from 4 on, at each position."""
    generator = torch.Generator().manual_seed(seed)
    random = torch.rand(sentences, length, tokens + 1, generator=generator, dtype=torch.float64)
    random /= random.sum(-1, keepdim=True)
    best = random[..., 1:].sort(descending=True)
    return TopProbabilities(random[..., 0], best.indices + 4, best.values)


def enumerate_outputs(top: TopProbabilities, sentence: int) -> dict[tuple[int, ...], float]:
    """All outputs of a sentence and their probabilities, path by path."""
    blank, tokens, probabilities = (part[sentence].tolist() for part in top)
    positions = [
        [(0, no_token), *zip(*pairs, strict=True)]
        for no_token, *pairs in zip(blank, tokens, probabilities, strict=True)
    ]
    outputs: dict[tuple[int, ...], float] = {}
    for path in itertools.product(*positions):
        output = tuple(t for t, _ in itertools.groupby(token for token, _ in path) if t)
        outputs[output] = outputs.get(output, 0.0) + math.prod(p for _, p in path)
    return outputs


def outputs_of(beams: PrefixBeams, sentence: int = 0) -> list[tuple[tuple[int, ...], float]]:
    """The outputs of a sentence and their log-probs, best first."""
    tokens, lengths, log_probs = (
        part[sentence].tolist() for part in (beams.tokens, beams.lengths, beams.log_probs)
    )
    return [
        (tuple(ids[:length]), log_prob)
        for ids, length, log_prob in zip(tokens, lengths, log_probs, strict=True)
        if log_prob > -math.inf
    ]


@pytest.mark.parametrize("seed", range(6))
def test_large_beam_finds_all_outputs(seed: int) -> None:
    top = random_probabilities(seed, 2, 5, 3)
    beams = prefix_beam_search(top, 400)
    for sentence in range(2):
        expected = enumerate_outputs(top, sentence)
        outputs = outputs_of(beams, sentence)
        assert dict(outputs).keys() == expected.keys()
        assert len(outputs) == len(expected)
        for tokens, log_prob in outputs:
            assert log_prob == pytest.approx(math.log(expected[tokens]), abs=1e-9)
        log_probs = [log_prob for _, log_prob in outputs]
        assert log_probs == sorted(log_probs, reverse=True)


@pytest.mark.parametrize("beam_size", [2, 5])
def test_small_beam_never_exceeds_the_total_probability(beam_size: int) -> None:
    top = random_probabilities(7, 20, 6, 3)
    beams = prefix_beam_search(top, beam_size)
    for sentence in range(20):
        expected = enumerate_outputs(top, sentence)
        outputs = outputs_of(beams, sentence)
        assert len(dict(outputs)) == len(outputs) == beam_size  # no duplicates
        for tokens, log_prob in outputs:
            assert log_prob <= math.log(expected[tokens]) + 1e-9


def test_outputs_do_not_depend_on_batch_and_padding() -> None:
    top = random_probabilities(8, 3, 9, 4)
    together = prefix_beam_search(top, 6)
    for sentence in range(3):
        single = TopProbabilities(*(part[sentence : sentence + 1] for part in top))
        assert outputs_of(prefix_beam_search(single, 6)) == outputs_of(together, sentence)
    longer = TopProbabilities(
        torch.cat([top.blank, torch.ones(3, 2, dtype=torch.float64)], 1),
        torch.cat([top.tokens, top.tokens[:, :2]], 1),
        torch.cat([top.probabilities, torch.zeros(3, 2, 4, dtype=torch.float64)], 1),
    )
    padded = prefix_beam_search(longer, 6)
    assert_close(padded.log_probs, together.log_probs)
    for sentence in range(3):
        assert outputs_of(padded, sentence)[0][0] == outputs_of(together, sentence)[0][0]


def one_sentence(*positions: tuple[float, list[tuple[int, float]]]) -> TopProbabilities:
    return TopProbabilities(
        torch.tensor([[blank for blank, _ in positions]], dtype=torch.float64),
        torch.tensor([[[token for token, _ in pairs] for _, pairs in positions]]),
        torch.tensor([[[p for _, p in pairs] for _, pairs in positions]]).double(),
    )


def test_many_paths_outweigh_the_best_path() -> None:
    """At each position a blank is more probable, but the token is on more paths."""
    top = one_sentence(*[(0.6, [(4, 0.4)])] * 2)
    (tokens, log_prob), *_ = outputs_of(prefix_beam_search(top, 4))
    assert tokens == (4,)
    assert log_prob == pytest.approx(math.log(1 - 0.36))


def test_long_sentences_do_not_underflow() -> None:
    top = one_sentence(*((1e-5, [(4 + number % 3, 1e-4)]) for number in range(400)))
    [(tokens, log_prob), *_] = outputs_of(prefix_beam_search(top, 3))
    assert len(tokens) == 400
    assert log_prob == pytest.approx(400 * math.log(1e-4), rel=1e-6)


def test_empty_output_is_always_possible() -> None:
    """Banned tokens may take all probability of a position."""
    top = one_sentence((0.0, [(4, 0.0)]))
    [(tokens, log_prob), *_] = outputs_of(prefix_beam_search(top, 2))
    assert tokens == ()
    assert math.isfinite(log_prob)

"""Decoding constraints: banned tokens, length limits, forced prefixes."""

from __future__ import annotations

import pytest
import torch

from regard.data.pairs import with_eos
from regard.decoding.beam import beam_search
from regard.decoding.config import AtLimit, SearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.greedy import greedy_search
from regard.decoding.search import search
from regard.text.special import SPECIAL
from toys import sentences, small_transformer

CPU = torch.device("cpu")
INF = float("inf")


def test_special_tokens_are_banned() -> None:
    logits = torch.zeros(2, 6)
    DecodingConstraints.of([9, 9], None, CPU).ban_special_tokens(logits)
    assert logits.tolist() == [[-INF, -INF, -INF, 0, 0, 0]] * 2


def test_eos_is_banned_before_the_minimum_length() -> None:
    constraints = DecodingConstraints.of([9], None, CPU, min_length=2)
    for position, expected in ((0, -INF), (1, -INF), (2, 0.0)):
        logits = torch.zeros(1, 6)
        constraints.ban_early_eos(logits, torch.tensor([position]))
        assert logits[0, SPECIAL.eos] == expected


def test_eos_is_forced_at_the_limit() -> None:
    constraints = DecodingConstraints.of([3, 4], None, CPU)
    assert constraints.forced_tokens(torch.tensor([1])).tolist() == [-1, -1]
    assert constraints.forced_tokens(torch.tensor([2])).tolist() == [SPECIAL.eos, -1]
    assert not constraints.may_force(1)
    assert constraints.may_force(2)


def test_prefix_is_forced() -> None:
    constraints = DecodingConstraints.of([9, 9, 9], [[7, 8], [], [9]], CPU)
    tokens = [constraints.forced_tokens(torch.tensor([position])).tolist() for position in range(3)]
    assert tokens == [[7, -1, 9], [8, -1, -1], [-1, -1, -1]]
    assert constraints.may_force(1)
    assert not constraints.may_force(2)


def test_forced_tokens_keep_their_log_probs() -> None:
    model, source = small_transformer(), with_eos(sentences(1))
    [free] = greedy_search(model, source, DecodingConstraints.of([12], None, CPU))
    [forced] = greedy_search(model, source, DecodingConstraints.of([12], [free.tokens], CPU))
    assert forced.tokens == free.tokens
    assert forced.score == pytest.approx(free.score, abs=1e-6)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_satisfies_the_minimum_length(beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size, min_length=9)
    for best in search(small_transformer(), with_eos(sentences(5)), config):
        assert len(best[0].tokens) >= 9


def test_searches_satisfy_limits_and_prefixes_per_sentence() -> None:
    model, source = small_transformer(), with_eos(sentences(4))
    limits, prefixes = [2, 5, 9, 3], [[], [7, 8], [9], [10, 11, 12, 13]]
    constraints = DecodingConstraints.of(limits, prefixes, CPU)
    greedy = greedy_search(model, source, constraints)
    beams = beam_search(model, source, constraints, beam_size=4)
    for row, (limit, prefix) in enumerate(zip(limits, prefixes, strict=True)):
        max_length = max(limit, len(prefix) + 1)
        for hypothesis in [greedy[row], *beams[row]]:
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert len(hypothesis.tokens) + 1 <= max_length
            assert not {SPECIAL.pad, SPECIAL.unk, SPECIAL.bos} & set(hypothesis.tokens)


def test_hypotheses_are_distinct_and_sorted() -> None:
    model, source = small_transformer(2), with_eos(sentences(6))
    constraints = DecodingConstraints.of([15] * 6, None, CPU)
    for hypotheses in beam_search(model, source, constraints, beam_size=5):
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) == 5
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("at_limit", "length"), [("scored", 4), ("free", 4), ("cut", 3)])
def test_score_of_eos_at_the_limit(at_limit: AtLimit, length: int) -> None:
    model, source = small_transformer(), with_eos(sentences(3))
    constraints = DecodingConstraints.of([4, 4, 4], None, CPU, min_length=3, at_limit=at_limit)
    for hypotheses in beam_search(model, source, constraints, beam_size=3, length_penalty=0.7):
        for hypothesis in hypotheses:
            assert len(hypothesis.tokens) == 3
            expected = hypothesis.log_probability / length**0.7
            assert hypothesis.score == pytest.approx(expected)
    exact = DecodingConstraints.of([4, 4, 4], None, CPU, min_length=3)
    for scored, other in zip(
        greedy_search(model, source, exact), greedy_search(model, source, constraints), strict=True
    ):
        assert scored.tokens == other.tokens
        assert (other.log_probability > scored.log_probability) == (at_limit != "scored")

"""What may be written: forbidden marks, the limit, a forced beginning."""

from __future__ import annotations

import pytest
import torch

from regard.data.pairs import with_ends
from regard.decoding.beam import beam_search
from regard.decoding.config import AtLimit, SearchConfig
from regard.decoding.greedy import greedy_search
from regard.decoding.rules import Rules
from regard.decoding.search import search
from regard.text.special import SPECIAL
from toys import sentences, small_model

CPU = torch.device("cpu")
INF = float("inf")


def test_marks_are_never_written() -> None:
    logits = torch.zeros(2, 6)
    Rules.of([9, 9], None, CPU).forbid(logits)
    assert logits.tolist() == [[-INF, -INF, -INF, 0, 0, 0]] * 2


def test_no_end_before_the_minimum() -> None:
    rules = Rules.of([9], None, CPU, minimum=2)
    for place, expected in ((0, -INF), (1, -INF), (2, 0.0)):
        logits = torch.zeros(1, 6)
        rules.forbid_early_end(logits, torch.tensor([place]))
        assert logits[0, SPECIAL.end] == expected


def test_a_sentence_at_its_limit_can_only_end() -> None:
    rules = Rules.of([3, 4], None, CPU)
    assert rules.forced(torch.tensor([1])).tolist() == [-1, -1]
    assert rules.forced(torch.tensor([2])).tolist() == [SPECIAL.end, -1]
    assert not rules.may_force(1)
    assert rules.may_force(2)


def test_a_beginning_is_forced() -> None:
    rules = Rules.of([9, 9, 9], [[7, 8], [], [9]], CPU)
    found = [rules.forced(torch.tensor([place])).tolist() for place in range(3)]
    assert found == [[7, -1, 9], [8, -1, -1], [-1, -1, -1]]
    assert rules.may_force(1)
    assert not rules.may_force(2)


def test_what_is_forced_keeps_its_probability() -> None:
    model, source = small_model(), with_ends(sentences(1))
    [free] = greedy_search(model, source, Rules.of([12], None, CPU))
    [forced] = greedy_search(model, source, Rules.of([12], [free.tokens], CPU))
    assert forced.tokens == free.tokens
    assert forced.score == pytest.approx(free.score, abs=1e-6)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_writes_the_minimum(beam_size: int) -> None:
    config = SearchConfig(beam_size=beam_size, min_length=9)
    for best in search(small_model(), with_ends(sentences(5)), config):
        assert len(best[0].tokens) >= 9


def test_searches_keep_unequal_limits_and_prefixes() -> None:
    model, source = small_model(), with_ends(sentences(4))
    limits, prefixes = [2, 5, 9, 3], [[], [7, 8], [9], [10, 11, 12, 13]]
    rules = Rules.of(limits, prefixes, CPU)
    greedy = greedy_search(model, source, rules)
    beams = beam_search(model, source, rules, beam_size=4)
    for row, (limit, prefix) in enumerate(zip(limits, prefixes, strict=True)):
        room = max(limit, len(prefix) + 1)
        for hypothesis in [greedy[row], *beams[row]]:
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert len(hypothesis.tokens) + 1 <= room
            assert not {SPECIAL.pad, SPECIAL.unknown, SPECIAL.start} & set(hypothesis.tokens)


def test_beams_are_distinct_and_ranked() -> None:
    model, source = small_model(2), with_ends(sentences(6))
    for found in beam_search(model, source, Rules.of([15] * 6, None, CPU), beam_size=5):
        assert len({tuple(h.tokens) for h in found}) == len(found) == 5
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


@pytest.mark.parametrize(("at_limit", "counted"), [("scored", 4), ("free", 4), ("cut", 3)])
def test_an_end_at_the_limit_costs_what_is_said(at_limit: AtLimit, counted: int) -> None:
    model, source = small_model(), with_ends(sentences(3))
    rules = Rules.of([4, 4, 4], None, CPU, minimum=3, at_limit=at_limit)
    for hypotheses in beam_search(model, source, rules, beam_size=3, length_penalty=0.7):
        for one in hypotheses:
            assert len(one.tokens) == 3
            assert one.score == pytest.approx(one.log_probability / counted**0.7)
    exact = Rules.of([4, 4, 4], None, CPU, minimum=3)
    for scored, other in zip(
        greedy_search(model, source, exact), greedy_search(model, source, rules), strict=True
    ):
        assert scored.tokens == other.tokens
        assert (other.log_probability > scored.log_probability) == (at_limit != "scored")

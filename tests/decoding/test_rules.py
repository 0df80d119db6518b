"""What may be written: forbidden marks, the limit, a forced beginning."""

from __future__ import annotations

import torch

from regard.data.loader import with_ends
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy_search
from regard.decoding.rules import Rules, ended_at_limit, forced, without_marks
from regard.text.special import SPECIAL
from toys import sentences, small_model

CPU = torch.device("cpu")
INF = float("inf")


def test_marks_are_never_written() -> None:
    found = without_marks(torch.zeros(2, 6))
    assert found.tolist() == [[-INF, -INF, -INF, 0, 0, 0]] * 2


def test_a_sentence_at_its_limit_can_only_end() -> None:
    found = ended_at_limit(torch.zeros(2, 6), torch.tensor([3, 4]), step=2)
    assert found.tolist() == [[-INF, -INF, -INF, 0, -INF, -INF], [0.0] * 6]


def test_a_forced_token_is_the_only_one_and_keeps_its_probability() -> None:
    log_probs = torch.randn(2, 3, 6)
    found = forced(log_probs, torch.tensor([4, -1]))
    assert torch.equal(found[1], log_probs[1])
    assert torch.equal(found[0, :, 4], log_probs[0, :, 4])
    assert torch.isinf(found[0]).sum() == 15


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

"""Searches agree with each other, with exhaustive search and with scoring."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Ragged
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Hypothesis, normalized
from regard.decoding.greedy import greedy_search
from regard.decoding.rules import Rules
from regard.decoding.score import scores
from regard.decoding.search import search
from regard.text.special import SPECIAL
from toys import EVERY_FORM, TableModel, pairs, sentences, some_model

CPU = torch.device("cpu")


def table_model(seed: int, words: int = 7) -> TableModel:
    torch.manual_seed(seed)
    return TableModel(torch.randn(5, words, words) * 2)


def firsts(*tokens: int) -> Ragged:
    return Ragged.of([[token] for token in tokens])


def exhaustive(model: TableModel, first: int, limit: int, alpha: float) -> list[Hypothesis]:
    """All sentences of up to `limit` tokens, best first."""
    found = []
    for length in range(limit):
        for body in product([4, 5, 6], repeat=length):
            total = model.log_probability(first, [*body, SPECIAL.end])
            found.append(Hypothesis(list(body), total, normalized(total, length + 1, alpha)))
    return sorted(found, key=lambda h: -h.score)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_beam_of_everything_is_exhaustive(seed: int, alpha: float) -> None:
    model = table_model(seed)
    rules = Rules.of([4, 3], None, CPU)
    found = beam_search(model, firsts(0, 3), rules, beam_size=200, length_penalty=alpha)
    for first, limit, hypotheses in zip((0, 3), (4, 3), found, strict=True):
        expected = exhaustive(model, first, limit, alpha)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize("form", EVERY_FORM)
def test_beam_of_one_is_greedy(form: str) -> None:
    model, source = some_model(2, **EVERY_FORM[form]), with_ends(sentences(9))
    rules = Rules.of([12] * 9, None, CPU)
    narrow = beam_search(model, source, rules, beam_size=1)
    greedy = greedy_search(model, source, rules)
    assert [h[0].tokens for h in narrow] == [h.tokens for h in greedy]
    assert [h[0].score for h in narrow] == pytest.approx([h.score for h in greedy], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("form", EVERY_FORM)
def test_score_is_what_the_search_said(form: str, beam_size: int, alpha: float) -> None:
    model, source = some_model(3, **EVERY_FORM[form]), with_ends(sentences(9))
    config = SearchConfig(beam_size=beam_size, length_penalty=alpha)
    found = search(model, source, config)
    batch = Batch(source, with_ends([h[0].tokens for h in found]))
    given = scores([model], batch, length_penalty=alpha)
    assert given == pytest.approx([h[0].score for h in found], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("method", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
@pytest.mark.parametrize("form", ["the paper's", "LSTM, additive", "LSTM, fed", "convolutional"])
def test_a_sentence_never_sees_its_batch(
    form: str, batch_size: int, method: dict[str, int]
) -> None:
    model, sources = some_model(1, **EVERY_FORM[form]), sentences(64, longest=14)
    config = SearchConfig(**method)  # type: ignore[arg-type]
    whole = search(model, with_ends(sources), config)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(batch_size)).tolist()
    for begin in range(0, 64, batch_size):
        rows = order[begin : begin + batch_size]
        part = search(model, with_ends([sources[i] for i in rows]), config)
        for row, found in zip(rows, part, strict=True):
            assert found[0].tokens == whole[row][0].tokens
            assert found[0].score == pytest.approx(whole[row][0].score, abs=1e-5)


@pytest.mark.parametrize("form", EVERY_FORM)
def test_cached_steps_are_the_uncached_pass(form: str) -> None:
    model, batch = some_model(0, **EVERY_FORM[form]), pairs(6)
    predictions = model(batch)
    whole = model.projection(predictions.hidden)
    lengths = batch.target.lengths
    inputs = lengths.pad(batch.target.shifted_right(SPECIAL.start).tokens)
    state, steps = model.start(batch.source, room=inputs.shape[1]), []
    for place, tokens in enumerate(inputs.unbind(1), 1):
        state.reach(place, exact=True)
        steps.append(model.step(tokens[:, None], state).squeeze(1))
    torch.testing.assert_close(lengths.unpad(torch.stack(steps, 1)), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("form", EVERY_FORM)
def test_neither_reach_nor_room_changes_anything(form: str) -> None:
    model, source = some_model(0, **EVERY_FORM[form]), with_ends(sentences(3))
    if not model.can_be_recorded:
        pytest.skip("it counts distances")
    tokens = torch.randint(4, 20, (4, 3, 2), generator=torch.Generator().manual_seed(0))
    found = []
    for slack, room in ((0, 12), (7, 12), (0, 1)):
        state = model.start(source, beams=2, room=room)
        for place, read in enumerate(tokens, 1):
            state.reach(place + slack, exact=slack == 0)
            logits = model.step(read, state)
            state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]))
        found.append(logits)
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("form", EVERY_FORM)
def test_beams_go_on_from_their_parents(form: str) -> None:
    """Whatever way a beam came, it is as if it had come alone."""
    model, sources = some_model(0, **EVERY_FORM[form]), sentences(4)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, 20, (5, 4, 3), generator=draw)
    parents = torch.randint(0, 3, (5, 4, 3), generator=draw)
    state = model.start(with_ends(sources), beams=3, room=5)
    paths: list[list[list[int]]] = [[[] for _ in range(3)] for _ in range(4)]
    for place in range(5):
        state.reach(place + 1, exact=True)
        logits = model.step(tokens[place], state)
        for row, beams in enumerate(paths):
            written = [[*beams[w], int(tokens[place, row, w])] for w in range(3)]
            paths[row] = [written[w] for w in parents[place, row].tolist()]
            if place < 4:
                continue
            for w in range(3):
                alone = model.start(with_ends([sources[row]]), room=5)
                for number, token in enumerate(written[w], 1):
                    alone.reach(number, exact=True)
                    expected = model.step(torch.tensor([[token]]), alone)
                torch.testing.assert_close(logits[row, w], expected[0, 0], atol=1e-5, rtol=0)
        state.reorder(parents[place])


@pytest.mark.parametrize("form", EVERY_FORM)
def test_sentences_that_stay_go_on_as_they_were(form: str) -> None:
    model, source = some_model(0, **EVERY_FORM[form]), with_ends(sentences(3))
    rows, read = torch.tensor([2, 0]), torch.tensor([[5, 6], [7, 8], [9, 10]])
    found = []
    for chosen in (torch.arange(3), rows):
        state = model.start(source, beams=2, room=3)
        model.step(torch.full((3, 2), 2), state)
        state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]))
        state = state.select(chosen)
        state.reach(2, exact=True)
        found.append(model.step(read[chosen], state))
    torch.testing.assert_close(found[1], found[0][rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam_size", [2, 3, 4])
def test_unlikely_early_ends_do_not_end_the_search(beam_size: int) -> None:
    # A confident model: one word is right at each of five places, and an end is always second best.
    table = torch.full((5, 7, 7), -9.0)
    for place, word in enumerate([4, 5, 6, 4, SPECIAL.end]):
        table[place, :, SPECIAL.end] = 0.0
        table[place, :, word] = 4.0
    [found] = beam_search(
        TableModel(table), firsts(0), Rules.of([9], None, CPU), beam_size=beam_size
    )
    assert found[0].tokens == [4, 5, 6, 4]

"""Searches match each other, exhaustive search and scoring."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis, length_normalized
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.greedy import greedy_search
from regard.decoding.score import score_pairs
from regard.decoding.search import search
from regard.text.special import SPECIAL
from toys import AUTOREGRESSIVE_VARIANTS, TableModel, autoregressive_model, pairs, sentences

CPU = torch.device("cpu")


def table_model(seed: int, vocab_size: int = 7) -> TableModel:
    torch.manual_seed(seed)
    return TableModel(torch.randn(5, vocab_size, vocab_size) * 2)


def sources(*tokens: int) -> Ragged:
    return Ragged.of([[token] for token in tokens])


def exhaustive_search(model: TableModel, first: int, limit: int, alpha: float) -> list[Hypothesis]:
    """All outputs of up to `limit` tokens, best first."""
    hypotheses = []
    for length in range(limit):
        for body in product([4, 5, 6], repeat=length):
            total = model.log_probability(first, [*body, SPECIAL.eos])
            score = length_normalized(total, length + 1, alpha)
            hypotheses.append(Hypothesis(list(body), total, score))
    return sorted(hypotheses, key=lambda h: -h.score)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_beam_search_matches_exhaustive_search(seed: int, alpha: float) -> None:
    model = table_model(seed)
    constraints = DecodingConstraints.of([4, 3], None, CPU)
    nbests = beam_search(model, sources(0, 3), constraints, beam_size=200, length_penalty=alpha)
    for first, limit, hypotheses in zip((0, 3), (4, 3), nbests, strict=True):
        expected = exhaustive_search(model, first, limit, alpha)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_beam_search_with_one_beam_matches_greedy_search(variant: str) -> None:
    model, source = (
        autoregressive_model(2, **AUTOREGRESSIVE_VARIANTS[variant]),
        with_eos(sentences(9)),
    )
    constraints = DecodingConstraints.of([12] * 9, None, CPU)
    narrow = beam_search(model, source, constraints, beam_size=1)
    greedy = greedy_search(model, source, constraints)
    assert [h[0].tokens for h in narrow] == [h.tokens for h in greedy]
    assert [h[0].score for h in narrow] == pytest.approx([h.score for h in greedy], abs=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_scoring_matches_the_score_of_the_search(
    variant: str, beam_size: int, alpha: float
) -> None:
    model, source = (
        autoregressive_model(3, **AUTOREGRESSIVE_VARIANTS[variant]),
        with_eos(sentences(9)),
    )
    config = SearchConfig(beam_size=beam_size, length_penalty=alpha)
    nbests = search(model, source, config)
    batch = Batch(source, with_eos([nbest[0].tokens for nbest in nbests]))
    forced = score_pairs([model], batch, length_penalty=alpha)
    assert forced == pytest.approx([nbest[0].score for nbest in nbests], rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("method", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}])
@pytest.mark.parametrize("batch_size", [1, 2, 7, 64])
@pytest.mark.parametrize("variant", ["vanilla", "LSTM, additive", "LSTM, fed", "convolutional"])
def test_search_does_not_depend_on_the_batch(
    variant: str, batch_size: int, method: dict[str, int]
) -> None:
    model = autoregressive_model(1, **AUTOREGRESSIVE_VARIANTS[variant])
    texts = sentences(64, longest=14)
    config = SearchConfig(**method)  # type: ignore[arg-type]
    whole = search(model, with_eos(texts), config)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(batch_size)).tolist()
    for start in range(0, 64, batch_size):
        rows = order[start : start + batch_size]
        part = search(model, with_eos([texts[i] for i in rows]), config)
        for row, nbest in zip(rows, part, strict=True):
            assert nbest[0].tokens == whole[row][0].tokens
            assert nbest[0].score == pytest.approx(whole[row][0].score, abs=1e-5)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_incremental_decoding_matches_the_forward_pass(variant: str) -> None:
    model, batch = autoregressive_model(0, **AUTOREGRESSIVE_VARIANTS[variant]), pairs(6)
    predictions = model(batch)
    expected = model.projection(predictions.hidden)
    lengths = batch.target.lengths
    inputs = lengths.pad(batch.target.shifted_right(SPECIAL.bos).tokens)
    state, steps = model.start(batch.source, capacity=inputs.shape[1]), []
    for length, tokens in enumerate(inputs.unbind(1), 1):
        state.reserve(length, exact=True)
        steps.append(model.step(tokens[:, None], state).squeeze(1))
    torch.testing.assert_close(lengths.unpad(torch.stack(steps, 1)), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_logits_do_not_depend_on_capacity_or_attended_length(variant: str) -> None:
    model, source = (
        autoregressive_model(0, **AUTOREGRESSIVE_VARIANTS[variant]),
        with_eos(sentences(3)),
    )
    if not model.step_capturable:
        pytest.skip("its steps depend on the position on the host")
    tokens = torch.randint(4, 20, (4, 3, 2), generator=torch.Generator().manual_seed(0))
    results = []
    for slack, capacity in ((0, 12), (7, 12), (0, 1)):
        state = model.start(source, beams=2, capacity=capacity)
        for length, inputs in enumerate(tokens, 1):
            state.reserve(length + slack, exact=slack == 0)
            logits = model.step(inputs, state)
            state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]))
        results.append(logits)
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_reordered_beams_match_single_decoding(variant: str) -> None:
    """The logits of a beam are those of its prefix decoded alone."""
    model, texts = autoregressive_model(0, **AUTOREGRESSIVE_VARIANTS[variant]), sentences(4)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, 20, (5, 4, 3), generator=generator)
    parents = torch.randint(0, 3, (5, 4, 3), generator=generator)
    state = model.start(with_eos(texts), beams=3, capacity=5)
    prefixes: list[list[list[int]]] = [[[] for _ in range(3)] for _ in range(4)]
    for position in range(5):
        state.reserve(position + 1, exact=True)
        logits = model.step(tokens[position], state)
        for row, beams in enumerate(prefixes):
            extended = [[*beams[w], int(tokens[position, row, w])] for w in range(3)]
            prefixes[row] = [extended[w] for w in parents[position, row].tolist()]
            if position < 4:
                continue
            for w in range(3):
                alone = model.start(with_eos([texts[row]]), capacity=5)
                for length, token in enumerate(extended[w], 1):
                    alone.reserve(length, exact=True)
                    expected = model.step(torch.tensor([[token]]), alone)
                torch.testing.assert_close(logits[row, w], expected[0, 0], atol=1e-5, rtol=0)
        state.reorder(parents[position])


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_selected_sentences_continue_unchanged(variant: str) -> None:
    model, source = (
        autoregressive_model(0, **AUTOREGRESSIVE_VARIANTS[variant]),
        with_eos(sentences(3)),
    )
    rows, tokens = torch.tensor([2, 0]), torch.tensor([[5, 6], [7, 8], [9, 10]])
    results = []
    for selected in (torch.arange(3), rows):
        state = model.start(source, beams=2, capacity=3)
        model.step(torch.full((3, 2), 2), state)
        state.reorder(torch.tensor([[1, 0], [0, 0], [1, 1]]))
        state = state.select(selected)
        state.reserve(2, exact=True)
        results.append(model.step(tokens[selected], state))
    torch.testing.assert_close(results[1], results[0][rows], atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam_size", [2, 3, 4])
def test_improbable_early_eos_does_not_stop_the_search(beam_size: int) -> None:
    # A confident model: one token is probable at each of five positions, EOS is second best.
    table = torch.full((5, 7, 7), -9.0)
    for position, token in enumerate([4, 5, 6, 4, SPECIAL.eos]):
        table[position, :, SPECIAL.eos] = 0.0
        table[position, :, token] = 4.0
    [hypotheses] = beam_search(
        TableModel(table), sources(0), DecodingConstraints.of([9], None, CPU), beam_size=beam_size
    )
    assert hypotheses[0].tokens == [4, 5, 6, 4]

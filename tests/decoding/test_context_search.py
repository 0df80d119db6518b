"""Searches with document context: scores and limits are those of the sentence after it."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from regard.data.pairs import context_batch, with_eos
from regard.data.ragged import Ragged
from regard.decoding.backend import ContextLengths, Hypothesis, length_normalized
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.lexical_constraints import LexicalConfig
from regard.decoding.score import score_pairs
from regard.decoding.search import search
from regard.decoding.token_constraints import Automata, TokenConstraint
from regard.text.special import SPECIAL
from toys import AUTOREGRESSIVE_VARIANTS, TableModel, autoregressive_model, sentences

CPU = torch.device("cpu")
CONTEXTS = [[7, 8, SPECIAL.bos], [], [9, SPECIAL.bos, 4, 4, 4, 4, 5, SPECIAL.bos], [6, SPECIAL.bos]]
METHODS: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 4, "beam_groups": 2},
    {"sample": True},
]


def search_in_context(
    model: Any, sources: list[list[int]], contexts: list[list[int]], **settings: Any
) -> list[list[Hypothesis]]:
    """The hypotheses after contexts; the sources have none."""
    lengths = [ContextLengths(0, len(ids)) for ids in contexts]
    config = SearchConfig(**settings)
    return search(model, with_eos(sources), config, prefixes=contexts, contexts=lengths)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_beam_search_matches_exhaustive_search(seed: int, alpha: float) -> None:
    """The best hypotheses are those with the highest probability given the context."""
    torch.manual_seed(seed)
    model = TableModel(torch.randn(5, 7, 7) * 2)
    contexts, limit = [[5, 4, SPECIAL.bos], [], [6, SPECIAL.bos]], 4
    config = SearchConfig(
        beam_size=200, num_hypotheses=200, length_penalty=alpha, max_ratio=0.0, max_extra=limit
    )
    source = Ragged.of([[0], [0], [0]])
    lengths = [ContextLengths(0, len(ids)) for ids in contexts]
    nbests = search(model, source, config, prefixes=contexts, contexts=lengths)
    for context, hypotheses in zip(contexts, nbests, strict=True):
        expected = []
        given = model.log_probability(0, context)
        for length in range(limit):
            for body in product([4, 5, 6], repeat=length):
                total = model.log_probability(0, [*context, *body, SPECIAL.eos]) - given
                expected.append((length_normalized(total, length + 1, alpha), [*body]))
        expected.sort(reverse=True)
        assert [each.tokens for each in hypotheses] == [tokens for _, tokens in expected]
        scores = [score for score, _ in expected]
        assert [each.score for each in hypotheses] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variant", ["vanilla", "LSTM, fed", "convolutional"])
def test_searches_do_not_depend_on_the_batch(variant: str, method: dict[str, Any]) -> None:
    model, sources = autoregressive_model(1, **AUTOREGRESSIVE_VARIANTS[variant]), sentences(4)
    whole = search_in_context(model, sources, CONTEXTS, **method)
    for source, context, nbest in zip(sources, CONTEXTS, whole, strict=True):
        [alone] = search_in_context(model, [source], [context], **method)
        assert [each.tokens for each in alone] == [each.tokens for each in nbest]
        assert alone[0].score == pytest.approx(nbest[0].score, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("variant", ["learned positions", "rotary", "GRU, fed, projected"])
def test_scores_are_those_of_the_sentence_in_its_context(
    variant: str, method: dict[str, Any]
) -> None:
    model, sources = autoregressive_model(2, **AUTOREGRESSIVE_VARIANTS[variant]), sentences(4)
    nbests = search_in_context(model, sources, CONTEXTS, length_penalty=0.7, **method)
    best = [nbest[0] for nbest in nbests]
    rows = zip(CONTEXTS, best, strict=True)
    target = with_eos([[*context, *each.tokens] for context, each in rows])
    batch = context_batch(with_eos(sources), target, [*map(len, CONTEXTS)])
    scores = score_pairs([model], batch, length_penalty=0.7)
    assert [each.score for each in best] == pytest.approx(scores, rel=1e-4, abs=1e-5)
    for each in best:
        expected = length_normalized(each.log_probability, len(each.tokens) + 1, 0.7)
        assert each.score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_limits_are_those_of_the_sentence(beam_size: int) -> None:
    model, sources = autoregressive_model(3), sentences(4)
    settings: dict[str, Any] = {"beam_size": beam_size, "max_ratio": 0.0, "max_extra": 5}
    for [best, *_] in search_in_context(model, sources, CONTEXTS, min_length=4, **settings):
        assert len(best.tokens) == 4
    longest = search_in_context(model, sources, CONTEXTS, min_ratio=20.0, **settings)
    assert all(len(nbest[0].tokens) == 4 for nbest in longest)
    pairs = zip(sources, CONTEXTS, strict=True)
    lengths = [ContextLengths(len(source), len(context)) for source, context in pairs]
    config = SearchConfig(beam_size=beam_size, max_ratio=3.0, max_extra=1, min_ratio=3.0)
    short = search(model, with_eos(sources), config, prefixes=CONTEXTS, contexts=lengths)
    assert {len(nbest[0].tokens) for nbest in short} <= {2, 3}  # of sources with EOS only


@pytest.mark.parametrize("settings", [{"no_repeat_ngram_size": 2}, {"repetition_penalty": 9.0}])
@pytest.mark.parametrize("beam_size", [1, 3])
def test_context_may_be_repeated(beam_size: int, settings: dict[str, Any]) -> None:
    """Penalties count the tokens of the sentence alone."""
    following = {SPECIAL.bos: 5, 5: 6, 6: SPECIAL.eos, 4: SPECIAL.eos}
    table = torch.zeros(1, 7, 7)
    for last, token in following.items():
        table[0, last, token] = 5.0
    model = TableModel(table)
    for context in ([], [5, 6, SPECIAL.bos]):
        settings |= {"beam_size": beam_size}
        [nbest] = search_in_context(model, [[0]], [context], **settings)
        assert nbest[0].tokens == [5, 6]


def test_terms_in_the_context_do_not_count() -> None:
    model, sources = autoregressive_model(4), sentences(4)
    continues = [False] * model.vocabulary.target
    term = TokenConstraint(((7, 8),))
    automata = Automata(continues)
    lexical = LexicalConfig([automata.of([term])] * 4, continues)
    nbests = search(
        model,
        with_eos(sources),
        SearchConfig(beam_size=2),
        prefixes=CONTEXTS,
        contexts=[ContextLengths(0, len(ids)) for ids in CONTEXTS],
        lexical=lexical,
    )
    for nbest in nbests:
        assert not automata.unsatisfied([term], nbest[0].tokens)


def test_constraints_without_context_have_no_tensor_for_it() -> None:
    constraints = DecodingConstraints.of([4, 5], [[7], []], CPU, contexts=[0, 0])
    assert constraints.contexts is None
    assert constraints.prefixes.shape == (2, 1)
    assert constraints.context_lengths(torch.tensor([1])) == [0]


def test_prefixes_with_context_have_few_shapes() -> None:
    shapes = {
        DecodingConstraints.of([99], [[7] * length], CPU, contexts=[length]).prefixes.shape
        for length in range(1, 40)
    }
    assert shapes == {(1, 16), (1, 32), (1, 64)}

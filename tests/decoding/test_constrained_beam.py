"""Constrained beam search equals exhaustive search, and without constraints the plain search."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

from occurrences import CONTINUES, is_satisfied
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.decoding.backend import Hypothesis, length_normalized
from regard.decoding.config import SearchConfig
from regard.decoding.constrained_beam import constrained_beam_search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.lexical_constraints import LexicalConfig, beam_count
from regard.decoding.score import score_pairs
from regard.decoding.search import search
from regard.decoding.token_constraints import Automata, TokenConstraint
from regard.decoding.wrappers import Ensemble
from regard.text.special import SPECIAL
from toys import (
    AUTOREGRESSIVE_VARIANTS,
    TableModel,
    autoregressive_model,
    sentences,
    small_transformer,
)

CPU = torch.device("cpu")
SOURCES = sentences(7, seed=4)
CONSTRAINTS: list[tuple[TokenConstraint, ...]] = [
    (TokenConstraint(((11, 12), (13,))),),
    (),
    (TokenConstraint(((20, 21, 22),)), TokenConstraint(((30,),), occurrences=2)),
    (TokenConstraint(((7,), (8, 9)), exactly=True), TokenConstraint(((8, 10),), whole_word=False)),
    (),
    (TokenConstraint(((14, 15, 16, 17, 18),)),),
    tuple(TokenConstraint(((token,),)) for token in range(20, 26)),
]


def lexical(*constraints: tuple[TokenConstraint, ...], size: int = 40) -> LexicalConfig:
    automata = Automata(CONTINUES[:size])
    return LexicalConfig([*map(automata.of, constraints)], CONTINUES[:size])


def exhaustive_search(
    model: TableModel, first: int, limit: int, constraints: tuple[TokenConstraint, ...]
) -> list[Hypothesis]:
    """All outputs of up to `limit` tokens that satisfy the constraints, best first."""
    hypotheses = []
    for length in range(limit):
        for body in product([4, 5, 6], repeat=length):
            if all(is_satisfied(body, constraint) for constraint in constraints):
                total = model.log_probability(first, [*body, SPECIAL.eos])
                score = length_normalized(total, length + 1, 1.0)
                hypotheses.append(Hypothesis(list(body), total, score))
    return sorted(hypotheses, key=lambda h: -h.score)


@pytest.mark.parametrize(
    "constraints",
    [
        (),
        (TokenConstraint(((4, 5), (6, 6, 4))),),
        (TokenConstraint(((5,),), occurrences=2), TokenConstraint(((4, 4),))),
        (TokenConstraint(((4,), (4, 6))), TokenConstraint(((5, 6),), whole_word=False)),
        (TokenConstraint(((4,),), exactly=True, whole_word=False), TokenConstraint(((5, 6),))),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_search_matches_exhaustive_search(
    seed: int, constraints: tuple[TokenConstraint, ...]
) -> None:
    torch.manual_seed(seed)
    model = TableModel(torch.randn(5, 7, 7) * 2)
    sources = Ragged.of([[0], [3]])
    limits = DecodingConstraints.of([5, 4], None, CPU)
    config = SearchConfig(beam_size=300, num_hypotheses=300)
    nbests = constrained_beam_search(
        model, sources, limits, lexical(constraints, constraints, size=7), config
    )
    for first, limit, hypotheses in zip((0, 3), (5, 4), nbests, strict=True):
        expected = exhaustive_search(model, first, limit, constraints)
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)


SETTINGS: list[dict[str, Any]] = [
    {"beam_size": 4, "num_hypotheses": 4},
    {"beam_size": 4, "num_hypotheses": 2, "patience": 1.0, "length_penalty": 0.6},
    {"beam_size": 3, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "min_ratio": 0.5},
    {"beam_size": 3, "length_penalty": 0.0, "at_limit": "cut", "max_extra": 3},
    {"beam_size": 2, "patience": 1.0, "length_penalty": 0.0, "min_length": 3},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("variant", ["vanilla", "LSTM, fed", "convolutional"])
def test_without_constraints_results_are_those_of_the_plain_search(
    variant: str, settings: dict[str, Any]
) -> None:
    model, source = autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant]), with_eos(SOURCES)
    config = SearchConfig(**settings)
    plain = search(model, source, config)
    assert search(model, source, config, lexical=lexical(*[()] * 7)) == plain
    # Nor do those of other sentences matter.
    mixed = search(model, source, config, lexical=lexical(*CONSTRAINTS))
    for row in (1, 4):
        assert [h.tokens for h in mixed[row]] == [h.tokens for h in plain[row]]
        assert [h.score for h in mixed[row]] == pytest.approx(
            [h.score for h in plain[row]], rel=1e-5
        )


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    "variant", ["vanilla", "relative", "LSTM, fed", "GRU", "convolutional", "UniLM"]
)
def test_all_hypotheses_satisfy_the_constraints(variant: str, beam_size: int) -> None:
    model = autoregressive_model(3, **AUTOREGRESSIVE_VARIANTS[variant])
    config = SearchConfig(beam_size=beam_size, num_hypotheses=beam_size)
    nbests = search(model, with_eos(SOURCES), config, lexical=lexical(*CONSTRAINTS))
    for constraints, nbest in zip(CONSTRAINTS, nbests, strict=True):
        assert nbest
        for hypothesis in nbest:
            assert all(is_satisfied(hypothesis.tokens, each) for each in constraints)
    best = [nbest[0] for nbest in nbests]
    batch = Batch(with_eos(SOURCES), with_eos([h.tokens for h in best]))
    assert score_pairs([model], batch) == pytest.approx([h.score for h in best], abs=1e-4)


@pytest.mark.parametrize("settings", SETTINGS)
def test_results_do_not_depend_on_the_batch(settings: dict[str, Any]) -> None:
    model, config = small_transformer(), SearchConfig(**settings)
    together = search(model, with_eos(SOURCES), config, lexical=lexical(*CONSTRAINTS))
    for source, constraints, nbest in zip(SOURCES, CONSTRAINTS, together, strict=True):
        [alone] = search(model, with_eos([source]), config, lexical=lexical(constraints))
        assert [h.tokens for h in alone] == [h.tokens for h in nbest]
        assert [h.score for h in alone] == pytest.approx([h.score for h in nbest], abs=1e-4)
        assert all(is_satisfied(h.tokens, each) for h in nbest for each in constraints)


def test_prefixes_count_and_bans_do_not() -> None:
    constraints = TokenConstraint(((20, 21),)), TokenConstraint(((22,),))
    config = SearchConfig(beam_size=3, banned_sequences=((22,),), no_repeat_ngram_size=1)
    [nbest] = search(
        small_transformer(),
        with_eos([SOURCES[0]]),
        config,
        prefixes=[[20, 21]],
        lexical=lexical(constraints),
    )
    tokens = nbest[0].tokens
    assert tokens[:2] == [20, 21]
    assert [tokens.count(token) for token in (20, 21)] == [1, 1]
    assert all(is_satisfied(tokens, constraint) for constraint in constraints)


def test_constraints_that_do_not_fit_have_no_hypotheses() -> None:
    config = SearchConfig(max_ratio=0, max_extra=3)
    fitting, longer = TokenConstraint(((20, 21),)), TokenConstraint(((20, 21, 22),))
    nbests = search(
        small_transformer(), with_eos([[4, 5]] * 2), config, lexical=lexical((fitting,), (longer,))
    )
    assert [h.tokens for h in nbests[0]] == [[20, 21]]
    assert nbests[1] == []


def test_ensemble() -> None:
    models = Ensemble([small_transformer(seed) for seed in (1, 2)])
    nbests = search(models, with_eos(SOURCES), SearchConfig(), lexical=lexical(*CONSTRAINTS))
    for constraints, nbest in zip(CONSTRAINTS, nbests, strict=True):
        assert all(is_satisfied(nbest[0].tokens, each) for each in constraints)


def test_number_of_beams() -> None:
    automata = Automata(CONTINUES)
    word, phrase = TokenConstraint(((20, 21),)), TokenConstraint(((*range(20, 32),),))
    assert beam_count(5, []) == 5
    assert beam_count(5, automata.of([word])) == 10
    assert beam_count(5, automata.of([phrase])) == 17
    assert beam_count(1, automata.of([phrase, phrase])) == 16

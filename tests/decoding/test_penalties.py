"""Penalties: repeated n-grams, repetition penalty, banned sequences and minimum lengths."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor

from looping import looping_model, repeats_ngram, violates
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.backend import Hypothesis, finished_hypothesis, sort_by_score
from regard.decoding.config import SearchConfig
from regard.decoding.penalties import Penalties, PenaltyConfig
from regard.decoding.score import score_pairs
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from toys import AUTOREGRESSIVE_VARIANTS, autoregressive_model, sentences, small_transformer

VOCABULARY = 9
SOURCES = sentences(7, seed=4)
NEVER = {SPECIAL.pad, SPECIAL.unk, SPECIAL.bos}
tokens = st.integers(SPECIAL.eos, VOCABULARY - 1)
rows = st.integers(0, 12).flatmap(
    lambda length: st.lists(
        st.lists(tokens, min_size=length, max_size=length), min_size=1, max_size=3
    )
)


def start(capacity: int, beams: int = 1, **settings: Any) -> Penalties:
    """Penalties of one sentence at position 0."""
    config = SearchConfig(**settings)
    penalties = PenaltyConfig.of(config, [config.minimum(10, 100)])
    assert penalties is not None
    return penalties.start(torch.zeros(capacity, 1, beams, dtype=torch.long))


def after(prefixes: Sequence[Sequence[int]], capacity: int = 14, **settings: Any) -> Penalties:
    """Penalties of a sentence whose beams have these prefixes."""
    penalties = start(capacity, len(prefixes), **settings)
    for position, column in enumerate(zip(*prefixes, strict=True)):
        penalties.append(torch.tensor([column]), torch.tensor([position]))
    return penalties


def banned_by(penalties: Penalties, position: int) -> list[set[int]]:
    """The tokens that are banned for each beam, except those that are never generated."""
    scores = torch.zeros(penalties.tokens.shape[1], VOCABULARY)
    penalties.ban(scores, torch.tensor([position]))
    return [{*row.isinf().nonzero().flatten().tolist()} - NEVER for row in scores]


@given(rows, st.integers(1, 5))
def test_bans_of_repeated_ngrams_match_a_loop(prefixes: list[list[int]], size: int) -> None:
    actual = banned_by(after(prefixes, no_repeat_ngram_size=size), len(prefixes[0]))
    for prefix, banned in zip(prefixes, actual, strict=True):
        last = prefix[len(prefix) - size + 1 :]
        windows = [prefix[start : start + size] for start in range(len(prefix) - size + 1)]
        expected = {window[-1] for window in windows if window[:-1] == last}
        assert banned == expected - {SPECIAL.eos}


@given(rows, st.lists(st.lists(tokens, min_size=1, max_size=4), min_size=1, max_size=4))
def test_banned_sequences_are_never_completed(
    prefixes: list[list[int]], banned: list[list[int]]
) -> None:
    sequences = tuple(map(tuple, banned))
    actual = banned_by(after(prefixes, banned_sequences=sequences), len(prefixes[0]))
    for prefix, tokens_banned in zip(prefixes, actual, strict=True):
        ends = [[*prefix, sequence[-1]][-len(sequence) :] for sequence in banned]
        assert tokens_banned == {
            end[-1] for end, seq in zip(ends, banned, strict=True) if end == seq
        }


@given(rows, st.integers(1, 4), st.sampled_from([1.3, 0.7, 2.0]))
def test_same_logits_as_processors_of_transformers(
    prefixes: list[list[int]], size: int, penalty: float
) -> None:
    ids, position = torch.tensor(prefixes), torch.tensor([len(prefixes[0])])
    ids = ids.view(len(prefixes), -1).long()
    logits = torch.randn(len(prefixes), VOCABULARY, generator=torch.Generator().manual_seed(3))
    penalties = after(prefixes, no_repeat_ngram_size=size, repetition_penalty=penalty)
    expected: Any = logits.clone()
    if len(prefixes[0]):
        expected = RepetitionPenaltyLogitsProcessor(penalty)(ids, expected)
    actual = logits.clone()
    penalties.penalize_repetition(actual, position)
    assert torch.equal(actual, expected)
    penalties.ban(actual, position)
    expected = NoRepeatNGramLogitsProcessor(size)(ids, expected)
    kept = [SPECIAL.unk, SPECIAL.bos, *range(SPECIAL.eos + 1, VOCABULARY)]
    assert torch.equal(actual[:, kept], expected[:, kept])


def test_beams_follow_their_parents() -> None:
    penalties = after([[4, 5], [6, 7]], no_repeat_ngram_size=1)
    penalties.append(torch.tensor([[8, 5]]), torch.tensor([2]), torch.tensor([[1, 0]]))
    assert banned_by(penalties, 3) == [{6, 7, 8}, {4, 5}]


def test_minimum_length_bans_eos() -> None:
    penalties = start(9, min_ratio=0.4)  # a source of 10 tokens, EOS included
    assert banned_by(penalties, 2) == [{SPECIAL.eos}]
    assert banned_by(penalties, 3) == [set()]
    assert SearchConfig(min_ratio=2.0).minimum(10, 12) == 11  # the limit is above it
    assert SearchConfig().minimum(10, 12) == 0


def test_plain_search_has_no_penalties() -> None:
    assert PenaltyConfig.of(SearchConfig(), [3]) is None
    off: Any = {"no_repeat_ngram_size": 0, "repetition_penalty": 1.0, "min_ratio": 0.0}
    assert PenaltyConfig.of(SearchConfig(**off, banned_sequences=()), [3]) is None


def test_empty_banned_sequence_is_an_error() -> None:
    with pytest.raises(ConfigError, match="banned_sequences has an empty sequence"):
        SearchConfig(banned_sequences=((4,), ()))


SETTINGS: dict[str, dict[str, Any]] = {
    "unigrams": {"no_repeat_ngram_size": 1},
    "bigrams": {"no_repeat_ngram_size": 2},
    "trigrams": {"no_repeat_ngram_size": 3},
    "penalty": {"repetition_penalty": 1.4},
    "sequences": {"banned_sequences": ((12,), (26, 38), (5, 5, 5))},
    "minimum": {"min_ratio": 1.5},
    "all": {
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.2,
        "banned_sequences": ((12,), (26, 38)),
        "min_ratio": 1.0,
    },
}


def reference_search(
    model: Transformer, source: list[int], config: SearchConfig
) -> list[Hypothesis]:
    """Beam search with patience in plain Python, which checks whole hypotheses."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    limit = config.limit(len(source) + 1)
    assert config.max_finished is not None
    while len(finished) < config.max_finished and beams:
        prefixes = [prefix for _, prefix in beams]
        with torch.no_grad():
            batch = Batch(with_eos([source] * len(beams)), with_eos(prefixes))
            predictions = model(batch)
            logits = predictions.project(predictions.hidden)
        last = torch.tensor([len(prefix) + 1 for prefix in prefixes]).cumsum(0) - 1
        logits = logits[last]
        if prefixes[0]:
            processor = RepetitionPenaltyLogitsProcessor(config.repetition_penalty)
            logits = processor(torch.tensor(prefixes), logits)
        if len(prefixes[0]) < config.effective_min_length:
            logits[:, SPECIAL.eos] = -torch.inf
        candidates = []
        for (total, prefix), row in zip(beams, logits.log_softmax(-1).tolist(), strict=True):
            allowed = [token for token in range(len(row)) if token not in NEVER]
            if len(prefix) + 1 == limit:
                candidates.append((total + row[SPECIAL.eos], [*prefix, SPECIAL.eos]))
                continue
            for token in allowed:
                ids = prefix if token == SPECIAL.eos else [*prefix, token]
                unfinished = dataclasses.replace(config, min_ratio=0.0)
                if not violates(ids, source, config if token == SPECIAL.eos else unfinished):
                    candidates.append((total + row[token], [*prefix, token]))
        ranked = sorted(candidates, reverse=True)[: 2 * config.beam_size]
        finished += [
            finished_hypothesis(ids, total, config.length_penalty)
            for total, ids in ranked[: config.beam_size]
            if ids[-1] == SPECIAL.eos
        ]
        unended = [(total, ids) for total, ids in ranked if ids[-1] != SPECIAL.eos]
        beams = unended[: config.beam_size]
    return sort_by_score(finished)[: config.num_hypotheses]


def assert_same(actual: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    assert [h.tokens for h in actual] == [h.tokens for h in expected]
    assert [h.score for h in actual] == pytest.approx([h.score for h in expected], abs=1e-4)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_matches_reference_implementation(name: str, beam_size: int) -> None:
    model = looping_model()
    config = SearchConfig(
        beam_size=beam_size, num_hypotheses=beam_size, patience=1.0, max_extra=8, **SETTINGS[name]
    )
    plain = SearchConfig(beam_size=beam_size, patience=1.0, max_extra=8)
    changed = 0
    free = search(model, with_eos(SOURCES), plain)
    for source, nbest, [best] in zip(
        SOURCES, search(model, with_eos(SOURCES), config), free, strict=True
    ):
        assert_same(nbest, reference_search(model, source, config))
        assert not any(violates(h.tokens, source, config) for h in nbest)
        changed += violates(best.tokens, source, config) or config.repetition_penalty != 1
    assert changed > 1, "the settings must have an effect"


@pytest.mark.parametrize("name", ["trigrams", "sequences", "minimum"])
@pytest.mark.parametrize("beam_size", [1, 4])
def test_scores_are_those_of_the_model(name: str, beam_size: int) -> None:
    model = looping_model()
    config = SearchConfig(beam_size=beam_size, **SETTINGS[name])
    best = [nbest[0] for nbest in search(model, with_eos(SOURCES), config)]
    batch = Batch(with_eos(SOURCES), with_eos([h.tokens for h in best]))
    assert [h.score for h in best] == pytest.approx(score_pairs([model], batch), abs=1e-4)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_penalties_without_effect_change_nothing(variant: str) -> None:
    model, source = autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant]), with_eos(SOURCES)
    for settings in ({"beam_size": 1}, {"beam_size": 3, "num_hypotheses": 3}, {"sample": True}):
        plain: Any = settings | {"max_extra": 9}
        inert = plain | {"no_repeat_ngram_size": 99, "banned_sequences": ((5,) * 60,)}
        expected = search(model, source, SearchConfig(**plain))
        assert search(model, source, SearchConfig(**inert)) == expected


@pytest.mark.parametrize(
    "settings", [{"beam_size": 1}, {"beam_size": 3, "num_hypotheses": 2}, {"sample": True}]
)
def test_results_do_not_depend_on_the_batch(settings: dict[str, Any]) -> None:
    model = looping_model()
    config = SearchConfig(**settings, **SETTINGS["all"])
    together = search(model, with_eos(SOURCES), config)
    for source, nbest in zip(SOURCES, together, strict=True):
        [alone] = search(model, with_eos([source]), config)
        assert_same(nbest, alone)
        assert not any(violates(h.tokens, source, config) for h in nbest)


def test_forced_prefixes_are_exempt() -> None:
    config = SearchConfig(beam_size=3, no_repeat_ngram_size=1, banned_sequences=((7,),))
    [nbest] = search(small_transformer(), with_eos([[4, 5]]), config, prefixes=[[7, 7, 9]])
    for hypothesis in nbest:
        assert hypothesis.tokens[:3] == [7, 7, 9]
        assert not {7, 9} & {*hypothesis.tokens[3:]}
        assert not repeats_ngram(hypothesis.tokens[2:], 1)

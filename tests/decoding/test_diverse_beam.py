"""Diverse beam search equals a reference in plain loops, and with one group the plain search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import regard
from regard.data.pairs import with_eos
from regard.data.ragged import Ragged
from regard.data.store import Store
from regard.decoding.backend import Hypothesis, length_normalized, sort_by_score
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.diverse_beam import diverse_beam_search
from regard.decoding.search import search
from regard.errors import ConfigError, ModelError
from regard.exchange import ctranslate2
from regard.models.folder import load_model
from regard.pipelines.text_search import Translation
from regard.text.special import SPECIAL
from toys import (
    AUTOREGRESSIVE_VARIANTS,
    TableModel,
    autoregressive_model,
    sentences,
    small_transformer,
    write_model_folder,
)

SOURCES = sentences(7, seed=4)
CPU = torch.device("cpu")
LogProbs = Callable[[Sequence[int]], list[float]]  # of the next token, given the tokens before


class Beam(NamedTuple):
    """An unfinished hypothesis of the reference."""

    tokens: list[int]
    log_prob: float


def reference(
    next_log_probs: LogProbs, config: SearchConfig, limit: int, prefix: Sequence[int] = ()
) -> list[Hypothesis]:
    """The hypotheses of one sentence by diverse beam search, as its definition says."""
    size, alpha = config.group_size, config.length_penalty
    beams = [[Beam([], 0.0)] for _ in range(config.beam_groups)]
    finished: list[list[Hypothesis]] = [[] for _ in range(config.beam_groups)]
    for position in range(limit):
        chosen: list[int] = []
        for group in range(config.beam_groups):
            ranked = []
            for beam in beams[group]:
                log_probs = next_log_probs(beam.tokens)
                allowed = [SPECIAL.eos, *range(4, len(log_probs))]
                if position < len(prefix):
                    allowed = [prefix[position]]
                elif position == limit - 1:
                    allowed = [SPECIAL.eos]
                for token in allowed:
                    log_prob = beam.log_prob + log_probs[token]
                    penalty = config.diversity_penalty * chosen.count(token)
                    ranked.append((log_prob - penalty, Beam([*beam.tokens, token], log_prob)))
            ranked.sort(key=lambda pair: -pair[0])
            for _, (tokens, log_prob) in ranked[:size]:
                if tokens[-1] == SPECIAL.eos:
                    score = length_normalized(log_prob, position + 1, alpha)
                    finished[group].append(Hypothesis(tokens[:-1], log_prob, score))
            finished[group] = sort_by_score(finished[group])[:size]
            open_beams = [beam for _, beam in ranked if beam.tokens[-1] != SPECIAL.eos][:size]
            chosen += [beam.tokens[-1] for beam in open_beams]
            best = max((beam.log_prob for beam in open_beams), default=-torch.inf)
            is_full = len(finished[group]) == size
            bound = finished[group][-1].score if is_full else -torch.inf
            can_win = length_normalized(best, position + 1, alpha) > bound
            beams[group] = open_beams if can_win else []
    rounds = [
        sort_by_score(group[rank] for group in finished if rank < len(group))
        for rank in range(size)
    ]
    distinct: list[Hypothesis] = []
    for hypothesis in (each for group in rounds for each in group):
        if hypothesis.tokens not in [other.tokens for other in distinct]:
            distinct.append(hypothesis)
    return sort_by_score(distinct[: config.num_hypotheses])


def assert_equal(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.tokens for h in actual] == [h.tokens for h in expected]
    assert [h.score for h in actual] == pytest.approx([h.score for h in expected], abs=1e-4)


def table_log_probs(model: TableModel, first: int) -> LogProbs:
    def next_log_probs(tokens: Sequence[int]) -> list[float]:
        row = model.table[(len(tokens) + first) % len(model.table), [2, *tokens][-1]]
        return [*map(float, row.log_softmax(-1))]

    return next_log_probs


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("penalty", [0.0, 0.3, 1.0, 20.0])
@pytest.mark.parametrize(("beams", "groups"), [(4, 2), (4, 4), (6, 2), (6, 3), (9, 3)])
def test_search_matches_the_reference(
    beams: int, groups: int, penalty: float, alpha: float
) -> None:
    for seed in range(4):
        torch.manual_seed(seed)
        model = TableModel(torch.randn(5, 9, 9) * 2)
        config = SearchConfig(
            beam_size=beams,
            num_hypotheses=beams - seed,
            beam_groups=groups,
            diversity_penalty=penalty,
            length_penalty=alpha,
        )
        limits = DecodingConstraints.of([7, 5, 6], [[], [], [5, 7]], CPU)
        nbests = diverse_beam_search(model, Ragged.of([[0], [3], [1]]), limits, config)
        for first, limit, prefix, nbest in zip(
            (0, 3, 1), (7, 5, 6), ([], [], [5, 7]), nbests, strict=True
        ):
            assert_equal(nbest, reference(table_log_probs(model, first), config, limit, prefix))


@pytest.mark.parametrize("variant", ["vanilla", "LSTM, fed"])
def test_search_of_a_model_matches_the_reference(variant: str) -> None:
    model = autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant])
    config = SearchConfig(beam_size=6, num_hypotheses=6, beam_groups=3, max_ratio=0, max_extra=8)
    nbests = search(model, with_eos(SOURCES), config)
    for source, nbest in zip(SOURCES, nbests, strict=True):

        @torch.inference_mode()
        def next_log_probs(tokens: Sequence[int], source: list[int] = source) -> list[float]:
            state = model.start(with_eos([source]), beams=1, capacity=9)
            state.reserve(1, exact=True)
            logits = model.step(model.first_tokens(1, 1), state)
            for length, token in enumerate(tokens, 2):
                state.reserve(length, exact=True)
                logits = model.step(torch.tensor([[token]]), state)
            log_probs: list[float] = logits.flatten().log_softmax(-1).tolist()
            return log_probs

        assert_equal(nbest, reference(next_log_probs, config, 8))


SETTINGS: list[dict[str, Any]] = [
    {"beam_size": 4, "num_hypotheses": 4},
    {"beam_size": 4, "num_hypotheses": 2, "patience": 1.0, "length_penalty": 0.6},
    {"beam_size": 4, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2, "min_ratio": 0.5},
    {"beam_size": 6, "length_penalty": 0.0, "at_limit": "cut", "max_extra": 3},
    {"beam_size": 2, "patience": 1.0, "length_penalty": 0.0, "min_length": 3},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("variant", ["vanilla", "LSTM, fed", "convolutional"])
def test_one_group_is_the_plain_search(variant: str, settings: dict[str, Any]) -> None:
    model, source = autoregressive_model(4, **AUTOREGRESSIVE_VARIANTS[variant]), with_eos(SOURCES)
    config = SearchConfig(**settings)
    limits = [config.limit(len(ids) + 1) for ids in SOURCES]
    prefixes = [[7, 8] if row == 2 else [] for row in range(len(SOURCES))]
    constraints = DecodingConstraints.of(limits, prefixes, CPU, at_limit=config.at_limit)
    actual = diverse_beam_search(model, source, constraints, config)
    expected = beam_search(
        model,
        source,
        constraints,
        beam_size=config.beam_size,
        num_hypotheses=config.num_hypotheses,
        length_penalty=config.length_penalty,
        max_finished=config.max_finished,
    )
    assert actual == expected


def test_without_penalty_each_group_is_the_plain_search() -> None:
    model, source = small_transformer(), with_eos(SOURCES)
    diverse = SearchConfig(beam_size=6, num_hypotheses=6, beam_groups=2, diversity_penalty=0.0)
    plain = SearchConfig(beam_size=3, num_hypotheses=3)
    for actual, expected in zip(
        search(model, source, diverse), search(model, source, plain), strict=True
    ):
        assert_equal(actual, expected)  # each hypothesis once


@pytest.mark.parametrize("settings", SETTINGS)
def test_results_do_not_depend_on_the_batch(settings: dict[str, Any]) -> None:
    model, config = small_transformer(), SearchConfig(**settings, beam_groups=2)
    together = search(model, with_eos(SOURCES), config)
    for source, nbest in zip(SOURCES, together, strict=True):
        [alone] = search(model, with_eos([source]), config)
        assert_equal(alone, nbest)


def test_groups_differ() -> None:
    model, source = small_transformer(), with_eos(SOURCES)
    config = SearchConfig(beam_size=4, num_hypotheses=4, beam_groups=4, diversity_penalty=100.0)
    for nbest in search(model, source, config):
        assert len({tuple(h.tokens[:1]) for h in nbest if h.tokens}) >= 3


@pytest.mark.parametrize("beam_groups", [3, 8])
def test_groups_must_have_the_same_size(beam_groups: int) -> None:
    with pytest.raises(ConfigError, match=r"beam_size is 4, but must be divisible by beam_groups"):
        SearchConfig(beam_size=4, beam_groups=beam_groups)


LINES = ["a b c d e", "f g", "h i j a b"]
DIVERSE: Any = {"beam_size": 6, "beam_groups": 3, "diversity_penalty": 1.0, "retry": False}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, reversal_store: Store) -> Path:
    """A model folder, without training."""
    return write_model_folder(tmp_path_factory.mktemp("model"), reversal_store)


def candidates(translation: Translation) -> set[str]:
    return {translation.text, *(other.text for other in translation.alternatives)}


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_mbr_and_reranking_choose_among_all_groups(model: Path, backend: str) -> None:
    translator = regard.load(model, device="cpu", backend=backend)
    nbests = translator.translate(LINES, num_hypotheses=6, **DIVERSE)
    plain = translator.translate(LINES, num_hypotheses=6, beam_size=6, retry=False)
    assert [*map(candidates, nbests)] != [*map(candidates, plain)]
    for choice in ({"mbr": "chrf"}, {"rerank": (model,)}):
        chosen = translator.translate(LINES, num_hypotheses=6, **DIVERSE, **choice)
        assert [*map(candidates, chosen)] == [*map(candidates, nbests)]


def test_an_exported_model_cannot_search(model: Path, tmp_path: Path) -> None:
    exported = tmp_path / "exported"
    ctranslate2.export(*load_model(model, CPU), exported, precision="float32")
    with pytest.raises(ModelError, match="was exported to CTranslate2"):
        regard.load(exported, device="cpu").translate(LINES, **DIVERSE)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"force": ("a",)}, r"force .* no effect in diverse beam search"),
        ({"glossary": {"a": "b"}}, r"glossary .* no effect in diverse beam search"),
        ({"beam_groups": 1}, r"diversity_penalty .* has no effect in beam search"),
        ({"beam_groups": 4}, "beam_size is 6, but must be divisible"),
        ({"mbr": "chrf", "mbr_samples": 9}, r"beam_groups .* has no effect in sampling"),
    ],
)
def test_settings_that_contradict_each_other(
    model: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        regard.load(model, device="cpu").translate(LINES, **DIVERSE | settings)

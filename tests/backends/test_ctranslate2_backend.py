"""Searches in CTranslate2 satisfy the constraints and return the scores of PyTorch."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from exchange.backend_models import describe_model, run_search, to_ctranslate2, to_torch
from looping import looping_model, violates
from regard.backends.ctranslate2_backend import CTranslate2Backend
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.decoding.backend import Backend, Hypothesis, finished_hypothesis, sort_by_score
from regard.decoding.config import SearchConfig
from regard.decoding.score import score_pairs
from regard.errors import ConfigError, ModelError
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from toys import sentences, small_transformer

SOURCES = sentences(12, seed=4)
PATIENCE = 1.5


def ending_model(seed: int = 3) -> Transformer:
    """A model that generates EOS, and hardly ever other special tokens."""
    model = small_transformer(seed=seed, output_bias=True)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.eos] += 2.2
    for token in (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos):
        model.projection.bias.data[token] = -30
    return model


def next_log_probs(
    model: Transformer, source: list[int], prefixes: Sequence[list[int]]
) -> list[list[float]]:
    """The next-token log-probs after each prefix, by a forward pass over the whole prefix."""
    with torch.no_grad():
        predictions = model(Batch(with_eos([source] * len(prefixes)), with_eos(prefixes)))
        logits = predictions.project(predictions.hidden)
    last = torch.tensor([len(prefix) + 1 for prefix in prefixes]).cumsum(0) - 1
    rows: list[list[float]] = logits[last].log_softmax(-1).tolist()
    return rows


def reference_beam_search(
    model: Transformer,
    source: list[int],
    *,
    beam_size: int,
    length_penalty: float,
    patience: float,
) -> list[Hypothesis]:
    """Textbook beam search, which stops after `beam_size * patience` finished hypotheses."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    while len(finished) < math.floor(beam_size * patience + 0.5):
        assert len(beams[0][1]) < 80, "the test expects EOS before any limit"
        rows = next_log_probs(model, source, [prefix for _, prefix in beams])
        ranked = sorted(
            (
                (total + log_prob, [*prefix, token])
                for (total, prefix), row in zip(beams, rows, strict=True)
                for token, log_prob in enumerate(row)
            ),
            reverse=True,
        )[: 2 * beam_size]
        finished += [
            finished_hypothesis(ids, total, length_penalty)
            for total, ids in ranked[:beam_size]
            if ids[-1] == SPECIAL.eos
        ]
        beams = [(total, ids) for total, ids in ranked if ids[-1] != SPECIAL.eos][:beam_size]
    return sort_by_score(finished)


def check_scores(
    model: Transformer,
    nbests: Sequence[Sequence[Hypothesis]],
    sources: Sequence[list[int]],
    length_penalty: float,
) -> None:
    """Each hypothesis has the score of the PyTorch model, and they are sorted by it."""
    for source, hypotheses in zip(sources, nbests, strict=True):
        batch = Batch(
            with_eos([source] * len(hypotheses)), with_eos([h.tokens for h in hypotheses])
        )
        expected = score_pairs([model], batch, length_penalty=length_penalty)
        assert [h.score for h in hypotheses] == pytest.approx(expected, abs=1e-4)
        assert expected == pytest.approx(sorted(expected, reverse=True), abs=1e-4)


@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
@pytest.mark.parametrize("beam_size", [2, 5])
@pytest.mark.parametrize("patience", [0.0, 1.0, 1.3, 2.0])
def test_beam_search_matches_reference_implementation(
    patience: float, beam_size: int, length_penalty: float, tmp_path: Path
) -> None:
    model = ending_model()
    settings: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    reference = [
        reference_beam_search(model, source, patience=patience or PATIENCE, **settings)[:beam_size]
        for source in SOURCES
    ]
    backends: list[Backend] = [to_ctranslate2(model, tmp_path)]
    if patience:
        backends.append(to_torch(model))
    for backend in backends:
        nbests = run_search(
            backend,
            SOURCES,
            num_hypotheses=beam_size,
            max_extra=80,
            patience=patience,
            min_length=0,
            **settings,
        )
        assert [[h.tokens for h in nbest] for nbest in nbests] == [
            [h.tokens for h in nbest] for nbest in reference
        ]
        check_scores(model, nbests, SOURCES, length_penalty)


def test_search_without_length_penalty(tmp_path: Path) -> None:
    model = ending_model()
    backend = to_ctranslate2(model, tmp_path)
    theirs = run_search(backend, SOURCES, beam_size=4, length_penalty=0.0)
    ours = run_search(to_torch(model), SOURCES, beam_size=4, length_penalty=0.0)
    assert [nbest[0].tokens for nbest in theirs] == [nbest[0].tokens for nbest in ours]
    check_scores(model, theirs, SOURCES, 0.0)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("limit", [(0.0, 1), (0.0, 2), (0.5, 1), (1.0, 3)])
def test_length_limit_per_sentence(
    limit: tuple[float, int], beam_size: int, tmp_path: Path
) -> None:
    model = small_transformer(seed=3)  # it never generates EOS
    ratio, extra = limit
    settings: dict[str, Any] = {"max_ratio": ratio, "max_extra": extra, "beam_size": beam_size}
    theirs = run_search(to_ctranslate2(model, tmp_path), SOURCES, **settings)
    for source, [best] in zip(SOURCES, theirs, strict=True):
        assert len(best.tokens) + 1 <= int(ratio * (len(source) + 1)) + extra
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = run_search(to_torch(model), SOURCES, **settings)
        assert [nbest[0].tokens for nbest in theirs] == [nbest[0].tokens for nbest in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_special_tokens_are_never_generated(beam_size: int, tmp_path: Path) -> None:
    model = small_transformer(seed=3, output_bias=True)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.pad] += 3  # the most probable token
    theirs = run_search(to_ctranslate2(model, tmp_path), SOURCES, beam_size=beam_size)
    assert all(min(h.tokens, default=9) > SPECIAL.eos for nbest in theirs for h in nbest)
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = run_search(to_torch(model), SOURCES, beam_size=1)
        assert [nbest[0].tokens for nbest in theirs] == [nbest[0].tokens for nbest in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_forced_prefixes_are_included_in_the_score(beam_size: int, tmp_path: Path) -> None:
    model = ending_model()
    backend = to_ctranslate2(model, tmp_path)
    prefixes = [[7, 9], [], [30], [], *[[5, 6, 7]] * 8]
    theirs = run_search(backend, SOURCES, prefixes=prefixes, beam_size=beam_size)
    free = run_search(backend, SOURCES, beam_size=beam_size)
    for prefix, [best], [unforced] in zip(prefixes, theirs, free, strict=True):
        assert best.tokens[: len(prefix)] == prefix
        assert prefix or best.tokens == unforced.tokens
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = run_search(to_torch(model), SOURCES, prefixes=prefixes, beam_size=1)
        assert [nbest[0].tokens for nbest in theirs] == [nbest[0].tokens for nbest in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_minimum_length(beam_size: int, tmp_path: Path) -> None:
    model = ending_model()
    settings: dict[str, Any] = {"beam_size": beam_size, "min_length": 6}
    settings["patience"] = float(beam_size > 1)
    theirs = run_search(to_ctranslate2(model, tmp_path), SOURCES, **settings)
    assert min(len(h.tokens) for nbest in theirs for h in nbest) == 6
    assert_same(theirs, run_search(to_torch(model), SOURCES, **settings))
    for source, [best] in zip(SOURCES, theirs, strict=True):
        prefixes = [best.tokens[:length] for length in range(len(best.tokens) + 1)]
        rows = torch.tensor(next_log_probs(model, source, prefixes))
        rows[:6, SPECIAL.eos] = -torch.inf  # its probability is redistributed
        expected = rows.log_softmax(-1)[range(len(rows)), [*best.tokens, SPECIAL.eos]].mean()
        assert best.score == pytest.approx(float(expected), abs=1e-4)


def assert_same(
    actual: Sequence[Sequence[Hypothesis]], expected: Sequence[Sequence[Hypothesis]]
) -> None:
    """The same hypotheses in the same order, with the same scores."""
    for left, right in zip(actual, expected, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-4)


def search_natively(
    backend: CTranslate2Backend, sources: Sequence[list[int]], **options: Any
) -> list[list[Hypothesis]]:
    """The hypotheses of CTranslate2 with its own options and defaults."""
    ids, penalty = backend._target_ids, options["length_penalty"]
    results = backend._translator.translate_batch(
        [[backend._source_tokens[i] for i in source] for source in sources],
        return_scores=True,
        return_end_token=True,
        **options,
    )
    nbests = []
    for result in results:
        rows = [[ids[token] for token in tokens] for tokens in result.hypotheses]
        assert all(row[-1] == SPECIAL.eos for row in rows), "the test expects EOS before any limit"
        nbests.append(
            [
                finished_hypothesis(row, score * len(row) ** penalty, penalty)
                for row, score in zip(rows, result.scores, strict=True)
            ]
        )
    return nbests


@pytest.mark.parametrize("seed", range(6))
def test_patience_stops_as_in_ctranslate2(seed: int, tmp_path: Path) -> None:
    """Also with a probable EOS at the first position, n-best lists and a minimum length."""
    rng = random.Random(seed)
    model = ending_model(seed)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.eos] += rng.choice([1.5, 2.5, 4.0])
    native, ours = to_ctranslate2(model, tmp_path), to_torch(model)
    for _ in range(12):
        sources, beams = sentences(8, seed=rng.randrange(1000)), rng.choice([2, 3, 5])
        count = rng.randrange(1, beams + 1)
        shared: dict[str, Any] = {
            "beam_size": beams,
            "length_penalty": rng.choice([0.0, 0.7, 1.0]),
            "patience": rng.choice([1.0, 1.0, 1.5, 2.0]),
        }
        min_length = rng.choice([None, 0, 1, 2, 4])
        options = {} if min_length is None else {"min_decoding_length": min_length}
        expected = search_natively(native, sources, num_hypotheses=count, **shared, **options)
        for backend in (native, ours):
            settings: dict[str, Any] = {
                "num_hypotheses": count,
                "min_length": min_length,
                "max_extra": 250,
            }
            assert_same(run_search(backend, sources, **settings, **shared), expected)


def test_scores_of_a_second_search_with_minimum_length(tmp_path: Path) -> None:
    model = ending_model(seed=1)
    backends = to_ctranslate2(model, tmp_path), to_torch(model)
    prefixes = [source[:2] for source in SOURCES]
    for min_length in (1, 3):
        for settings in ({"prefixes": prefixes}, {"max_ratio": 0.0, "max_extra": 6}):
            both = [
                run_search(backend, SOURCES, beam_size=1, min_length=min_length, **settings)
                for backend in backends
            ]
            assert_same(*both)


def test_prefix_longer_than_the_limit_is_not_truncated(tmp_path: Path) -> None:
    backend = to_ctranslate2(ending_model(), tmp_path)
    settings: dict[str, Any] = {"max_ratio": 0.0, "max_extra": 2, "beam_size": 2}
    [[best]] = run_search(backend, [[4, 5]], prefixes=[[9] * 6], **settings)
    assert best.tokens == [9] * 6


@pytest.mark.parametrize("batch_size", [1, 3, 7, None])
def test_results_do_not_depend_on_the_batch(batch_size: int | None, tmp_path: Path) -> None:
    backend = to_ctranslate2(ending_model(), tmp_path)
    settings: dict[str, Any] = {"beam_size": 3, "num_hypotheses": 2}
    expected = run_search(backend, SOURCES, **settings)
    again = run_search(backend, SOURCES[::-1], batch_size=batch_size, **settings)[::-1]
    for left, right in zip(expected, again, strict=True):
        assert [h.tokens for h in left] == [h.tokens for h in right]
        assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-5)


def test_learned_positions_limit_the_length(tmp_path: Path) -> None:
    backend = to_ctranslate2(
        small_transformer(seed=3, positional_encoding="learned", max_positions=12), tmp_path
    )
    assert backend.max_length == 12
    nbests = run_search(backend, [[5] * 11, [6]], beam_size=2, max_ratio=9.0)
    assert max(len(h.tokens) for nbest in nbests for h in nbest) <= 11
    assert (
        to_ctranslate2(small_transformer(positional_encoding="rotary"), tmp_path / "any").max_length
        is None
    )


def test_hypotheses_without_scores_are_the_same(tmp_path: Path) -> None:
    backend = to_ctranslate2(small_transformer(seed=3), tmp_path)
    scored, unscored = (
        run_search(backend, SOURCES, beam_size=1, scores=flag) for flag in (True, False)
    )
    assert [nbest[0].tokens for nbest in scored] == [nbest[0].tokens for nbest in unscored]
    assert all(math.isnan(nbest[0].score) for nbest in unscored)
    assert not any(math.isnan(nbest[0].score) for nbest in scored)


def test_no_requests_and_invalid_batch_size(tmp_path: Path) -> None:
    backend = to_ctranslate2(ending_model(), tmp_path)
    assert run_search(backend, [], beam_size=2) == []
    with pytest.raises(ConfigError, match="batch_size is 0"):
        run_search(backend, SOURCES, batch_size=0)


def test_error_of_a_damaged_folder(tmp_path: Path) -> None:
    model = small_transformer()
    to_ctranslate2(model, tmp_path)
    (tmp_path / "float32" / "model.bin").write_bytes(b"no")
    with pytest.raises(ModelError, match=r"cannot load .*float32"):
        CTranslate2Backend(tmp_path / "float32", describe_model(model).tokenizers)


GUARDS: dict[str, dict[str, Any]] = {
    "unigrams": {"no_repeat_ngram_size": 1},
    "trigrams": {"no_repeat_ngram_size": 3},
    "sequences": {"banned_sequences": ((12,), (26, 38), (5, 5, 5))},
    "minimum": {"min_ratio": 1.5},
    "penalty": {"repetition_penalty": 1.4},
    "all but the penalty": {
        "no_repeat_ngram_size": 2,
        "banned_sequences": ((38,), (26, 5)),
        "min_ratio": 0.9,
    },
}


def guarded_search(
    name: str, beam_size: int, folder: Path, **settings: Any
) -> tuple[list[list[Hypothesis]], list[list[Hypothesis]]]:
    """The hypotheses of a model that repeats tokens, in CTranslate2 and in PyTorch."""
    model = looping_model()
    settings = {"beam_size": beam_size, "max_extra": 8, **GUARDS[name], **settings}
    backends: tuple[Backend, ...] = (to_ctranslate2(model, folder), to_torch(model))
    ours, theirs = (run_search(backend, SOURCES, **settings) for backend in backends[::-1])
    config = SearchConfig(**settings)
    for source, nbest in zip(SOURCES, theirs, strict=True):
        assert not any(violates(h.tokens, source, config) for h in nbest)
    return theirs, ours


@pytest.mark.parametrize("name", sorted(GUARDS.keys() - {"penalty"}))
def test_guarded_greedy_search_equals_that_of_pytorch(name: str, tmp_path: Path) -> None:
    assert_same(*guarded_search(name, 1, tmp_path))


@pytest.mark.parametrize("name", sorted(GUARDS.keys() - {"penalty"}))
def test_guarded_beam_search_satisfies_the_constraints(name: str, tmp_path: Path) -> None:
    theirs, _ = guarded_search(name, 4, tmp_path, num_hypotheses=3)
    check_scores(looping_model(), theirs, SOURCES, 1.0)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_search_with_repetition_penalty_equals_that_of_pytorch(
    beam_size: int, tmp_path: Path
) -> None:
    settings = {} if beam_size == 1 else {"num_hypotheses": 3, "patience": 1.0}
    both = guarded_search("penalty", beam_size, tmp_path, max_extra=60, **settings)
    # At the limit, the scores are those of the model, without the penalty.
    ended = [pair for pair in zip(*both, strict=True) if len(pair[1][0].tokens) < 50]
    assert len(ended) > 7
    for theirs, ours in ended:
        assert_same([theirs], [ours])

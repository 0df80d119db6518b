"""Searches in CTranslate2 keep our rules and tell our scores."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from exchange.engines import described, found, in_ctranslate2, in_torch
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.decoding.ctranslate2_engine import CTranslate2Engine
from regard.decoding.engine import Engine, Hypothesis, best_first, finished
from regard.decoding.score import scores
from regard.errors import ConfigError, ModelError
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from toys import sentences, small_model

SOURCES = sentences(12, seed=4)
PATIENCE = 1.5


def ending_model(seed: int = 3) -> Transformer:
    """A model that ends its sentences, and hardly thinks of other marks."""
    model = small_model(seed=seed, output_bias=True)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.end] += 2.2
    for mark in (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start):
        model.projection.bias.data[mark] = -30
    return model


def next_words(
    model: Transformer, source: list[int], written: Sequence[list[int]]
) -> list[list[float]]:
    """The log-probabilities of what may follow each beginning, by a forward pass over all of it."""
    with torch.no_grad():
        predictions = model(Batch(with_ends([source] * len(written)), with_ends(written)))
        logits = predictions.project(predictions.hidden)
    places = torch.tensor([len(one) + 1 for one in written]).cumsum(0) - 1
    rows: list[list[float]] = logits[places].log_softmax(-1).tolist()
    return rows


def plain_beam_search(
    model: Transformer,
    source: list[int],
    *,
    beam_size: int,
    length_penalty: float,
    patience: float,
) -> list[Hypothesis]:
    """Beam search as it reads in a book, which is done after so many ends."""
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    while len(ended) < math.floor(beam_size * patience + 0.5):
        assert len(beams[0][1]) < 80, "it should end before any limit"
        rows = next_words(model, source, [written for _, written in beams])
        ranked = sorted(
            (
                (total + gain, [*written, word])
                for (total, written), row in zip(beams, rows, strict=True)
                for word, gain in enumerate(row)
            ),
            reverse=True,
        )[: 2 * beam_size]
        ended += [
            finished(written, total, length_penalty)
            for total, written in ranked[:beam_size]
            if written[-1] == SPECIAL.end
        ]
        beams = [one for one in ranked if one[1][-1] != SPECIAL.end][:beam_size]
    return best_first(ended)


def check_scores(
    model: Transformer,
    every: Sequence[Sequence[Hypothesis]],
    sources: Sequence[list[int]],
    length_penalty: float,
) -> None:
    """Each hypothesis has the score that the model itself gives it, and they are ranked by it."""
    for source, hypotheses in zip(sources, every, strict=True):
        batch = Batch(
            with_ends([source] * len(hypotheses)), with_ends([h.tokens for h in hypotheses])
        )
        own = scores([model], batch, length_penalty=length_penalty)
        assert [h.score for h in hypotheses] == pytest.approx(own, abs=1e-4)
        assert own == pytest.approx(sorted(own, reverse=True), abs=1e-4)


@pytest.mark.parametrize("length_penalty", [0.6, 1.0])
@pytest.mark.parametrize("beam_size", [2, 5])
@pytest.mark.parametrize("patience", [0.0, 1.0, 1.3, 2.0])
def test_beam_search_finds_what_a_plain_one_finds(
    patience: float, beam_size: int, length_penalty: float, tmp_path: Path
) -> None:
    model = ending_model()
    settings: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    plain = [
        plain_beam_search(model, source, patience=patience or PATIENCE, **settings)[:beam_size]
        for source in SOURCES
    ]
    engines: list[Engine] = [in_ctranslate2(model, tmp_path)]
    if patience:
        engines.append(in_torch(model))
    for engine in engines:
        every = found(
            engine,
            SOURCES,
            top_beams=beam_size,
            max_extra=80,
            patience=patience,
            min_length=0,
            **settings,
        )
        assert [[h.tokens for h in one] for one in every] == [
            [h.tokens for h in one] for one in plain
        ]
        check_scores(model, every, SOURCES, length_penalty)


def test_the_best_by_probability_alone_is_found(tmp_path: Path) -> None:
    model = ending_model()
    engine = in_ctranslate2(model, tmp_path)
    theirs = found(engine, SOURCES, beam_size=4, length_penalty=0.0)
    ours = found(in_torch(model), SOURCES, beam_size=4, length_penalty=0.0)
    assert [one[0].tokens for one in theirs] == [one[0].tokens for one in ours]
    check_scores(model, theirs, SOURCES, 0.0)


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("limit", [(0.0, 1), (0.0, 2), (0.5, 1), (1.0, 3)])
def test_each_sentence_has_its_own_limit(
    limit: tuple[float, int], beam_size: int, tmp_path: Path
) -> None:
    model = small_model(seed=3)  # it would go on for ever
    ratio, extra = limit
    settings: dict[str, Any] = {"max_ratio": ratio, "max_extra": extra, "beam_size": beam_size}
    theirs = found(in_ctranslate2(model, tmp_path), SOURCES, **settings)
    for source, [best] in zip(SOURCES, theirs, strict=True):
        assert len(best.tokens) + 1 <= int(ratio * (len(source) + 1)) + extra
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = found(in_torch(model), SOURCES, **settings)
        assert [one[0].tokens for one in theirs] == [one[0].tokens for one in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_no_mark_is_ever_written(beam_size: int, tmp_path: Path) -> None:
    model = small_model(seed=3, output_bias=True)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.pad] += 3  # what it likes best
    theirs = found(in_ctranslate2(model, tmp_path), SOURCES, beam_size=beam_size)
    assert all(min(h.tokens, default=9) > SPECIAL.end for one in theirs for h in one)
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = found(in_torch(model), SOURCES, beam_size=1)
        assert [one[0].tokens for one in theirs] == [one[0].tokens for one in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_forced_beginnings_are_written_and_counted(beam_size: int, tmp_path: Path) -> None:
    model = ending_model()
    engine = in_ctranslate2(model, tmp_path)
    begins = [[7, 9], [], [30], [], *[[5, 6, 7]] * 8]
    theirs = found(engine, SOURCES, begins=begins, beam_size=beam_size)
    free = found(engine, SOURCES, beam_size=beam_size)
    for begin, [best], without in zip(begins, theirs, free, strict=True):
        assert best.tokens[: len(begin)] == begin
        assert begin or best.tokens == without[0].tokens
    check_scores(model, theirs, SOURCES, 1.0)
    if beam_size == 1:
        ours = found(in_torch(model), SOURCES, begins=begins, beam_size=1)
        assert [one[0].tokens for one in theirs] == [one[0].tokens for one in ours]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_nothing_ends_too_early(beam_size: int, tmp_path: Path) -> None:
    model = ending_model()
    settings: dict[str, Any] = {"beam_size": beam_size, "min_length": 6}
    settings["patience"] = float(beam_size > 1)
    theirs = found(in_ctranslate2(model, tmp_path), SOURCES, **settings)
    assert min(len(h.tokens) for one in theirs for h in one) == 6
    assert_same(theirs, found(in_torch(model), SOURCES, **settings))
    for source, [best] in zip(SOURCES, theirs, strict=True):
        written = [best.tokens[:place] for place in range(len(best.tokens) + 1)]
        rows = torch.tensor(next_words(model, source, written))
        rows[:6, SPECIAL.end] = -torch.inf  # whose probability the others have
        own = rows.log_softmax(-1)[range(len(rows)), [*best.tokens, SPECIAL.end]].mean()
        assert best.score == pytest.approx(float(own), abs=1e-4)


def assert_same(one: Sequence[Sequence[Hypothesis]], other: Sequence[Sequence[Hypothesis]]) -> None:
    """The same hypotheses in the same order, with the same scores."""
    for mine, yours in zip(one, other, strict=True):
        assert [h.tokens for h in mine] == [h.tokens for h in yours]
        assert [h.score for h in mine] == pytest.approx([h.score for h in yours], abs=1e-4)


def searched_by_itself(
    engine: CTranslate2Engine, sources: Sequence[list[int]], **options: Any
) -> list[list[Hypothesis]]:
    """What CTranslate2 finds with options of its own, its defaults included."""
    ids, penalty = engine._target_ids, options["length_penalty"]
    results = engine._translator.translate_batch(
        [[engine._source_pieces[i] for i in source] for source in sources],
        return_scores=True,
        return_end_token=True,
        **options,
    )
    every = []
    for result in results:
        rows = [[ids[piece] for piece in pieces] for pieces in result.hypotheses]
        assert all(row[-1] == SPECIAL.end for row in rows), "it should end before any limit"
        every.append(
            [
                finished(row, score * len(row) ** penalty, penalty)
                for row, score in zip(rows, result.scores, strict=True)
            ]
        )
    return every


@pytest.mark.parametrize("seed", range(6))
def test_with_patience_a_sentence_is_done_where_ctranslate2_is(seed: int, tmp_path: Path) -> None:
    """Also where EOS is likely at the first position, in n-best lists and with a least length."""
    draw = random.Random(seed)
    model = ending_model(seed)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.end] += draw.choice([1.5, 2.5, 4.0])
    engine, ours = in_ctranslate2(model, tmp_path), in_torch(model)
    for _ in range(12):
        sources, beams = sentences(8, seed=draw.randrange(1000)), draw.choice([2, 3, 5])
        wanted = draw.randrange(1, beams + 1)
        same: dict[str, Any] = {
            "beam_size": beams,
            "length_penalty": draw.choice([0.0, 0.7, 1.0]),
            "patience": draw.choice([1.0, 1.0, 1.5, 2.0]),
        }
        least = draw.choice([None, 0, 1, 2, 4])
        theirs = {} if least is None else {"min_decoding_length": least}
        expected = searched_by_itself(engine, sources, num_hypotheses=wanted, **same, **theirs)
        for backend in (engine, ours):
            settings = {"top_beams": wanted, "min_length": least, "max_extra": 250, **same}
            assert_same(found(backend, sources, **settings), expected)


def test_scores_of_a_second_search_have_the_least_length_too(tmp_path: Path) -> None:
    model = ending_model(seed=1)
    engine, ours = in_ctranslate2(model, tmp_path), in_torch(model)
    begins = [source[:2] for source in SOURCES]
    for least in (1, 3):
        for settings in ({"begins": begins}, {"max_ratio": 0.0, "max_extra": 6}):
            both = [
                found(backend, SOURCES, beam_size=1, min_length=least, **settings)
                for backend in (engine, ours)
            ]
            assert_same(*both)


def test_a_beginning_longer_than_the_limit_is_written_out(tmp_path: Path) -> None:
    engine = in_ctranslate2(ending_model(), tmp_path)
    settings: dict[str, Any] = {"max_ratio": 0.0, "max_extra": 2, "beam_size": 2}
    [[best]] = found(engine, [[4, 5]], begins=[[9] * 6], **settings)
    assert best.tokens == [9] * 6


@pytest.mark.parametrize("batch_size", [1, 3, 7, None])
def test_results_do_not_depend_on_the_batch(batch_size: int | None, tmp_path: Path) -> None:
    engine = in_ctranslate2(ending_model(), tmp_path)
    settings: dict[str, Any] = {"beam_size": 3, "top_beams": 2}
    expected = found(engine, SOURCES, **settings)
    again = found(engine, SOURCES[::-1], batch_size=batch_size, **settings)[::-1]
    for one, other in zip(expected, again, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-5)


def test_learned_positions_are_a_limit(tmp_path: Path) -> None:
    engine = in_ctranslate2(small_model(seed=3, positions="learned", max_positions=12), tmp_path)
    assert engine.max_length == 12
    every = found(engine, [[5] * 11, [6]], beam_size=2, max_ratio=9.0)
    assert max(len(h.tokens) for one in every for h in one) <= 11
    assert in_ctranslate2(small_model(positions="rotary"), tmp_path / "any").max_length is None


def test_without_scores_the_same_is_written(tmp_path: Path) -> None:
    engine = in_ctranslate2(small_model(seed=3), tmp_path)
    told, untold = (found(engine, SOURCES, beam_size=1, scores=told) for told in (True, False))
    assert [one[0].tokens for one in told] == [one[0].tokens for one in untold]
    assert all(math.isnan(one[0].score) for one in untold)
    assert not any(math.isnan(one[0].score) for one in told)


def test_jobs_are_taken_before_all_are_there(tmp_path: Path) -> None:
    engine = in_ctranslate2(ending_model(), tmp_path)
    assert found(engine, [], beam_size=2) == []
    with pytest.raises(ConfigError, match="batch_size is 0"):
        found(engine, SOURCES, batch_size=0)


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    model = small_model()
    in_ctranslate2(model, tmp_path)
    (tmp_path / "float32" / "model.bin").write_bytes(b"no")
    with pytest.raises(ModelError, match=r"cannot read .*float32"):
        CTranslate2Engine(tmp_path / "float32", described(model).tokenizers)

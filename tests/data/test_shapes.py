"""Batches in few shapes: nobody notices what fills them."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.batch import Batch, FertilityBatch
from regard.data.pairs import with_ends
from regard.data.shapes import Shape
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import FORMS, any_model, fertile, pairs, read_by

FILLABLE = [  # but for batch norm, whose statistics would count the filler, and for what is drawn
    name for name in FORMS if name not in ("batch norm", "sampled", "REINFORCE")
]


def some(source: list[int], target: list[int]) -> Batch:
    """Sentences of these lengths, end marks not counted."""
    draw = random.Random(0)
    rows = [[[draw.randrange(4, 40) for _ in range(n)] for n in side] for side in (source, target)]
    return Batch(*map(with_ends, rows))  # type: ignore[arg-type]


lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=30)


@given(lengths, st.integers(1, 300), st.integers(42, 200))
def test_a_filled_batch_holds_its_pairs_and_filler(
    pairs_of_lengths: list[tuple[int, int]], unit: int, limit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = some(list(source), list(target))
    shape = Shape.around(batch, unit, limit)
    filled = shape.filled(batch)
    assert filled.target_tokens == batch.target_tokens
    for row, old, side in (
        (filled.source, batch.source, shape.source),
        (filled.target, batch.target, shape.target),
    ):
        assert len(row.lengths) == shape.sentences
        assert int(row.lengths.lengths.sum()) == row.lengths.total == len(row.tokens) == side.tokens
        assert side.tokens % unit == 0
        assert int(row.lengths.lengths.max()) <= row.lengths.longest == side.longest <= limit
        assert torch.equal(row.tokens[: old.lengths.total], old.tokens)
        assert (row.tokens[old.lengths.total :] == SPECIAL.pad).all()
        assert torch.equal(row.lengths.lengths[: len(old.lengths)], old.lengths.lengths)
    again = shape.unpacked(shape.packed(filled))
    for one, other in ((again.source, filled.source), (again.target, filled.target)):
        assert torch.equal(one.tokens, other.tokens)
        assert torch.equal(one.lengths.lengths, other.lengths.lengths)


@given(lengths, st.integers(1, 300))
def test_with_fertilities_no_sentence_is_empty(
    pairs_of_lengths: list[tuple[int, int]], unit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = fertile(some(list(source), list(target)))
    shape = Shape.around(batch, unit, 128)
    filled = shape.unpacked(shape.packed(shape.filled(batch)))
    for row, side in ((filled.source, shape.source), (filled.target, shape.target)):
        assert len(row.lengths) == shape.sentences
        assert int(row.lengths.lengths.sum()) == side.tokens
        assert int(row.lengths.lengths.min()) >= 1
        assert int(row.lengths.lengths.max()) <= side.longest
    assert isinstance(filled, FertilityBatch)
    assert torch.equal(filled.fertilities[: len(batch.fertilities)], batch.fertilities)
    words = filled.source.lengths.sums(filled.fertilities)
    assert torch.equal(words, filled.target.lengths.lengths - 1)


@given(lengths, st.integers(1, 300))
def test_a_filled_batch_is_as_large_as_its_shape_already(
    pairs_of_lengths: list[tuple[int, int]], unit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = some(list(source), list(target))
    shape = Shape.around(batch, unit, 128)
    again = Shape.around(shape.filled(batch), unit, 128)
    assert (again.source, again.target) == (shape.source, shape.target)


def test_batches_of_a_size_share_their_shape() -> None:
    shapes = {Shape.around(pairs(40, seed=seed), 128, 128) for seed in range(50)}
    assert len(shapes) < 10


def learned(
    batch: Batch, form: str, weight: float, kind: str = "transformer"
) -> tuple[Tensor, list[Tensor]]:
    """The sums of an update, and its gradients."""
    model = any_model(0, kind=kind, **FORMS[form])
    config = TrainingConfig(r_drop=weight, clip_norm=0.0, precision="float32")
    done = Updater(model.train(), make_optimizer(model, config), Objective(config))(
        [batch], step=1, rate=0.0
    )
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return done.sums, [gradient * done.tokens for gradient in gradients]


@pytest.mark.parametrize("weight", [0.0, 5.0])
@pytest.mark.parametrize("form", FILLABLE)
def test_nothing_is_learned_from_filler(form: str, weight: float) -> None:
    batch = pairs(7)
    shape = Shape.around(batch, 100, 64)
    expected, gradients = learned(batch, form, weight)
    found, also = learned(shape.filled(batch), form, weight)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for one, other in zip(also, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("weight", [0.0, 5.0])
@pytest.mark.parametrize("kind", ["causal", "masked", "unilm"])
def test_nor_in_rows_that_are_read_as_one(kind: str, weight: float) -> None:
    batch = read_by(kind, pairs(7))
    shape = Shape.around(batch, 100, 64)
    filled = shape.filled(batch)
    expected, gradients = learned(batch, "pre-norm", weight, kind)
    # Once packed, nobody knows where there is filler, and all places are looked at.
    for one in (filled, shape.unpacked(shape.packed(filled))):
        found, also = learned(one, "pre-norm", weight, kind)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        for ours, theirs in zip(also, gradients, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


@settings(max_examples=25)
@given(lengths)
def test_filler_of_any_size_teaches_nothing(pairs_of_lengths: list[tuple[int, int]]) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = some(list(source), list(target))
    expected, _ = learned(batch, "pre-norm", 0.0)
    found, _ = learned(Shape.around(batch, 64, 128).filled(batch), "pre-norm", 0.0)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

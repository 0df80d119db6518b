"""Shape buckets: filler sentences change neither losses nor gradients."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.batch import Batch, FertilityBatch
from regard.data.pairs import with_eos
from regard.data.shapes import BatchShape
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import TRANSFORMER_VARIANTS, add_fertilities, batch_for_kind, pairs, random_model

FILLABLE = [  # not batch norm, whose statistics would include filler, nor random sampling
    name for name in TRANSFORMER_VARIANTS if name not in ("batch norm", "sampled", "REINFORCE")
]


def random_batch(source: list[int], target: list[int]) -> Batch:
    """Random sentences of these lengths, without EOS."""
    rng = random.Random(0)
    rows = [[[rng.randrange(4, 40) for _ in range(n)] for n in side] for side in (source, target)]
    return Batch(*map(with_eos, rows))  # type: ignore[arg-type]


lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=30)


@given(lengths, st.integers(1, 300), st.integers(42, 200))
def test_filled_batch_has_pairs_and_filler(
    pairs_of_lengths: list[tuple[int, int]], unit: int, limit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = random_batch(list(source), list(target))
    shape = BatchShape.bucket(batch, unit, limit)
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
    again = shape.unpack(shape.pack(filled))
    for actual, expected in ((again.source, filled.source), (again.target, filled.target)):
        assert torch.equal(actual.tokens, expected.tokens)
        assert torch.equal(actual.lengths.lengths, expected.lengths.lengths)


@given(lengths, st.integers(1, 300))
def test_fertility_batches_have_no_empty_sentences(
    pairs_of_lengths: list[tuple[int, int]], unit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = add_fertilities(random_batch(list(source), list(target)))
    shape = BatchShape.bucket(batch, unit, 128)
    filled = shape.unpack(shape.pack(shape.filled(batch)))
    for row, side in ((filled.source, shape.source), (filled.target, shape.target)):
        assert len(row.lengths) == shape.sentences
        assert int(row.lengths.lengths.sum()) == side.tokens
        assert int(row.lengths.lengths.min()) >= 1
        assert int(row.lengths.lengths.max()) <= side.longest
    assert isinstance(filled, FertilityBatch)
    assert torch.equal(filled.fertilities[: len(batch.fertilities)], batch.fertilities)
    sums = filled.source.lengths.sums(filled.fertilities)
    assert torch.equal(sums, filled.target.lengths.lengths - 1)


@given(lengths, st.integers(1, 300))
def test_filled_batch_has_the_same_bucket(
    pairs_of_lengths: list[tuple[int, int]], unit: int
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = random_batch(list(source), list(target))
    shape = BatchShape.bucket(batch, unit, 128)
    again = BatchShape.bucket(shape.filled(batch), unit, 128)
    assert (again.source, again.target) == (shape.source, shape.target)


def test_similar_batches_share_a_shape() -> None:
    shapes = {BatchShape.bucket(pairs(40, seed=seed), 128, 128) for seed in range(50)}
    assert len(shapes) < 10


def update(
    batch: Batch, form: str, weight: float, kind: str = "transformer"
) -> tuple[Tensor, list[Tensor]]:
    """The loss sums and gradients of an update."""
    model = random_model(0, kind=kind, **TRANSFORMER_VARIANTS[form])
    config = TrainingConfig(r_drop=weight, max_grad_norm=0.0, precision="float32")
    result = Updater(model.train(), make_optimizer(model, config), Objective(config))(
        [batch], step=1, rate=0.0
    )
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return result.sums, [gradient * result.tokens for gradient in gradients]


@pytest.mark.parametrize("weight", [0.0, 5.0])
@pytest.mark.parametrize("form", FILLABLE)
def test_filler_does_not_change_loss_and_gradients(form: str, weight: float) -> None:
    batch = pairs(7)
    shape = BatchShape.bucket(batch, 100, 64)
    expected, gradients = update(batch, form, weight)
    actual, actual_gradients = update(shape.filled(batch), form, weight)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    for actual_gradient, gradient in zip(actual_gradients, gradients, strict=True):
        torch.testing.assert_close(actual_gradient, gradient, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("weight", [0.0, 5.0])
@pytest.mark.parametrize("kind", ["causal", "masked", "unilm"])
def test_filler_does_not_change_language_models(kind: str, weight: float) -> None:
    batch = batch_for_kind(kind, pairs(7))
    shape = BatchShape.bucket(batch, 100, 64)
    filled = shape.filled(batch)
    expected, gradients = update(batch, "pre-norm", weight, kind)
    # After packing, the amount of filler is unknown, and all positions are used.
    for variant in (filled, shape.unpack(shape.pack(filled))):
        actual, actual_gradients = update(variant, "pre-norm", weight, kind)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
        for actual_gradient, gradient in zip(actual_gradients, gradients, strict=True):
            torch.testing.assert_close(actual_gradient, gradient, rtol=1e-3, atol=1e-3)


@settings(max_examples=25)
@given(lengths)
def test_filler_of_any_size_does_not_change_the_loss(
    pairs_of_lengths: list[tuple[int, int]],
) -> None:
    source, target = zip(*pairs_of_lengths, strict=True)
    batch = random_batch(list(source), list(target))
    expected, _ = update(batch, "pre-norm", 0.0)
    actual, _ = update(BatchShape.bucket(batch, 64, 128).filled(batch), "pre-norm", 0.0)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)

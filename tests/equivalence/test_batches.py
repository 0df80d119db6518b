"""A flat batch is the padded one, a batch is its sentences, several batches are one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.attend import attend, attend_ragged, attention_weights
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.data.ragged import Lengths
from regard.training.config import TrainingConfig
from regard.training.losses import token_loss
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import EVERY_FORM, pairs, sentences, small_model, some_model


def logits(batch: Batch, form: str) -> Tensor:
    model = some_model(0, **EVERY_FORM[form])
    return model.projection(model(batch).hidden)


@pytest.mark.parametrize("form", EVERY_FORM)
def test_a_batch_is_its_sentences(form: str) -> None:
    source, target = sentences(7), sentences(7, seed=1)
    together = logits(Batch(with_ends(source), with_ends(target)), form)
    alone = [
        logits(Batch(with_ends([s]), with_ends([t])), form)
        for s, t in zip(source, target, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_attention_is_attention_of_each_sentence(causal: bool) -> None:
    torch.manual_seed(0)
    queries = Lengths.of([3, 1, 5])
    keys = queries if causal else Lengths.of([2, 6, 4])
    query = torch.randn(queries.total, 2, 8)
    key, value = torch.randn(2, keys.total, 2, 8).unbind(0)
    found = attend_ragged(query, key, value, queries, keys, causal=causal)
    expected = []
    for q, k, v in zip(
        query.split(queries.lengths.tolist()),
        key.split(keys.lengths.tolist()),
        value.split(keys.lengths.tolist()),
        strict=True,
    ):
        mask = torch.ones(len(q), len(k), dtype=torch.bool)
        weights = attention_weights(
            q.transpose(0, 1), k.transpose(0, 1), mask=mask.tril() if causal else mask
        )
        expected.append((weights @ v.transpose(0, 1)).transpose(0, 1))
    torch.testing.assert_close(found, torch.cat(expected), atol=1e-5, rtol=0)


def test_fused_is_plain_also_where_nobody_may_be_looked_at() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind(0)
    mask = torch.rand(2, 1, 5, 5) < 0.6
    mask[0, 0, 2] = False
    plain = attention_weights(query, key, mask=mask) @ value
    torch.testing.assert_close(attend(query, key, value, mask=mask), plain, atol=1e-5, rtol=0)
    assert plain[0, :, 2].abs().max() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_pytorchs(smoothing: float) -> None:
    model, batch = small_model(), pairs(8)
    predictions = model(batch)
    expected = torch.nn.functional.cross_entropy(
        model.projection(predictions.hidden),
        predictions.targets,
        label_smoothing=smoothing,
        reduction="sum",
    )
    found = token_loss(predictions, smoothing)
    torch.testing.assert_close(found.total, expected)


def test_accumulated_batches_are_one_batch() -> None:
    source, target = sentences(12), sentences(12, seed=1)

    def gradients(cuts: list[slice]) -> list[Tensor]:
        # Gradients, not weights: Adam's first step makes rounding errors as large as the rate.
        model, config = small_model(), TrainingConfig(clip_norm=0.0, precision="float32")
        batches = [Batch(with_ends(source[cut]), with_ends(target[cut])) for cut in cuts]
        optimizer = make_optimizer(model, config)
        Updater(model.train(), optimizer, Objective(config))(batches, step=1, rate=1e-3)
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    whole = gradients([slice(0, 12)])
    parts = gradients([slice(0, 2), slice(2, 9), slice(9, 12)])  # of unequal numbers of tokens
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)

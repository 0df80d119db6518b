"""Results do not depend on padding, batching or gradient accumulation."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.attend import attend, attend_ragged, attention_weights
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.data.ragged import Lengths
from regard.training.config import TrainingConfig
from regard.training.losses import token_loss
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater
from toys import AUTOREGRESSIVE_VARIANTS, autoregressive_model, pairs, sentences, small_transformer


def logits(batch: Batch, variant: str) -> Tensor:
    model = autoregressive_model(0, **AUTOREGRESSIVE_VARIANTS[variant])
    return model.projection(model(batch).hidden)


@pytest.mark.parametrize("variant", AUTOREGRESSIVE_VARIANTS)
def test_batched_logits_match_single_sentences(variant: str) -> None:
    source, target = sentences(7), sentences(7, seed=1)
    together = logits(Batch(with_eos(source), with_eos(target)), variant)
    alone = [
        logits(Batch(with_eos([s]), with_eos([t])), variant)
        for s, t in zip(source, target, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=0)


@pytest.mark.parametrize("causal", [False, True])
def test_ragged_attention_matches_attention_per_sentence(causal: bool) -> None:
    torch.manual_seed(0)
    queries = Lengths.of([3, 1, 5])
    keys = queries if causal else Lengths.of([2, 6, 4])
    query = torch.randn(queries.total, 2, 8)
    key, value = torch.randn(2, keys.total, 2, 8).unbind(0)
    actual = attend_ragged(query, key, value, queries, keys, causal=causal)
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
    torch.testing.assert_close(actual, torch.cat(expected), atol=1e-5, rtol=0)


def test_fused_attention_matches_eager_attention_with_fully_masked_queries() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind(0)
    mask = torch.rand(2, 1, 5, 5) < 0.6
    mask[0, 0, 2] = False
    eager = attention_weights(query, key, mask=mask) @ value
    torch.testing.assert_close(attend(query, key, value, mask=mask), eager, atol=1e-5, rtol=0)
    assert eager[0, :, 2].abs().max() == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_matches_pytorch(smoothing: float) -> None:
    model, batch = small_transformer(), pairs(8)
    predictions = model(batch)
    expected = torch.nn.functional.cross_entropy(
        model.projection(predictions.hidden),
        predictions.targets,
        label_smoothing=smoothing,
        reduction="sum",
    )
    actual = token_loss(predictions, smoothing)
    torch.testing.assert_close(actual.total, expected)


def test_gradient_accumulation_matches_one_batch() -> None:
    source, target = sentences(12), sentences(12, seed=1)

    def gradients(slices: list[slice]) -> list[Tensor]:
        # Gradients, not weights: in Adam's first step, rounding errors can reach the learning rate.
        model, config = small_transformer(), TrainingConfig(max_grad_norm=0.0, precision="float32")
        batches = [Batch(with_eos(source[part]), with_eos(target[part])) for part in slices]
        optimizer = make_optimizer(model, config)
        Updater(model.train(), optimizer, Objective(config))(batches, step=1, rate=1e-3)
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    whole = gradients([slice(0, 12)])
    parts = gradients([slice(0, 2), slice(2, 9), slice(9, 12)])  # with different numbers of tokens
    for left, right in zip(whole, parts, strict=True):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-4)

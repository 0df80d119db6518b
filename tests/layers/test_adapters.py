"""LoRA adapters: weights, gradients, trainable parameters and merging."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.batch import Batch, FertilityBatch, PermutedBatch
from regard.data.pairs import concatenate_rows, with_eos
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.adapters import (
    AdaptedLinear,
    LoraConfig,
    LowRank,
    add_adapters,
    is_adapted,
    merge_adapters,
)
from regard.models.base import Model
from regard.models.folder import named_weights
from toys import (
    AUTOREGRESSIVE_VARIANTS,
    NONAUTOREGRESSIVE_VARIANTS,
    pairs,
    random_model,
    sentences,
    small_transformer,
)

TEXT = ("causal", "masked", "xl", "permuted")
VARIANTS: dict[str, dict[str, Any]] = {
    **{
        name: variant
        for name, variant in AUTOREGRESSIVE_VARIANTS.items()
        if "without attention" not in name
    },
    **{
        name: {"kind": "nonautoregressive", **variant}
        for name, variant in NONAUTOREGRESSIVE_VARIANTS.items()
    },
    **{kind: {"kind": kind} for kind in TEXT},
}
Layers = Literal["queries_values", "attention", "all"]


def make_model(variant: str) -> Model:
    return random_model(
        2, **{"kind": "transformer", **{**AUTOREGRESSIVE_VARIANTS, **VARIANTS}[variant]}
    )


def logits(model: Model) -> Tensor:
    """The logits of a batch of this kind of model."""
    batch, rows = pairs(6), sentences(6)
    if model.config.kind == "permuted":
        batch = PermutedBatch(Ragged.of(rows), Ragged.of(rows))
    elif model.config.kind in TEXT:
        batch = Batch(Ragged.of(rows), Ragged.of(rows))
    elif model.config.kind == "nonautoregressive":
        ones = concatenate_rows([np.ones(len(row), np.int64) for row in rows], last=0)
        batch = FertilityBatch(with_eos(rows), with_eos(rows), fertilities=ones)
    predictions = model(batch)
    return model.projection(predictions.hidden)


def randomize_adapters(model: nn.Module) -> None:
    """Give all adapters random non-zero weights."""
    for module in model.modules():
        if isinstance(module, LowRank):
            nn.init.normal_(module.up, std=0.1)


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_adapters_start_as_identity_and_merge_exactly(variant: str) -> None:
    base_model, model = make_model(variant), make_model(variant)
    add_adapters(model, LoraConfig(rank=3, dropout=0.5, target_modules="all"))
    before = logits(base_model)
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-5)
    randomize_adapters(model)
    unmerged = logits(model)
    assert (unmerged - before).abs().max() > 1e-3
    merge_adapters(model)
    assert not is_adapted(model)
    assert named_weights(model).keys() == named_weights(base_model).keys()
    torch.testing.assert_close(logits(model), unmerged, rtol=0, atol=1e-5)


def test_adapted_weight_adds_a_low_rank_product_per_part() -> None:
    layer = Linear(6, 9)
    parts = {"query": 4, "key": 2, "value": 3}
    adapted = AdaptedLinear(layer, parts, LoraConfig(rank=2, alpha=6.0))
    randomize_adapters(adapted)
    added = torch.zeros(9, 6)
    for name, rows in (("query", slice(0, 4)), ("value", slice(6, 9))):
        adapter = adapted.adapters[name]
        assert isinstance(adapter, LowRank)
        added[rows] = 3.0 * adapter.up @ adapter.down
    assert [*adapted.adapters] == ["query", "value"]
    torch.testing.assert_close(adapted.weight, layer.weight + added)


def test_gradients_match_two_separate_low_rank_layers() -> None:
    torch.manual_seed(1)
    layer, x = Linear(6, 5), torch.randn(7, 6)
    adapted = AdaptedLinear(
        layer, {"whole": 5}, LoraConfig(rank=2, alpha=3.0, target_modules="all")
    )
    randomize_adapters(adapted)
    adapter = adapted.adapters["whole"]
    assert isinstance(adapter, LowRank)
    layer.weight.requires_grad_(False)
    paper = layer(x) + 1.5 * x @ adapter.down.t() @ adapter.up.t()
    expected = torch.autograd.grad((paper**3).sum(), [adapter.down, adapter.up])
    actual = torch.autograd.grad((adapted(x) ** 3).sum(), [adapter.down, adapter.up])
    torch.testing.assert_close(adapted(x), paper)
    torch.testing.assert_close(actual, expected)


def test_adapter_dropout_drops_input_features() -> None:
    layer = AdaptedLinear(
        Linear(8, 4), {"whole": 4}, LoraConfig(rank=2, dropout=0.25, target_modules="all")
    )
    randomize_adapters(layer)
    expected_weight = layer.eval().weight.detach()
    layer.train()
    torch.manual_seed(5)
    samples = torch.stack([layer.weight.detach() for _ in range(4000)])
    torch.testing.assert_close(samples.mean(0), expected_weight, atol=0.05, rtol=0)
    added, expected = samples - layer.frozen, (expected_weight - layer.frozen) / 0.75
    hidden = (added == 0).all(1)  # (4000, 8): inputs, each of them hidden or not
    assert 0.23 < hidden.float().mean() < 0.27
    torch.testing.assert_close(added, ~hidden[:, None] * expected.expand_as(added))
    torch.testing.assert_close(layer.merged().weight, expected_weight)


@pytest.mark.parametrize(
    ("layers", "expected_count"),
    [
        # One encoder block with one attention module, one decoder block with two.
        ("queries_values", 3 * 2 * (32 + 32)),
        ("attention", 3 * 4 * (32 + 32)),
        ("all", 3 * 4 * (32 + 32) + 2 * 2 * (32 + 48)),
    ],
)
def test_only_adapters_are_trained(layers: Layers, expected_count: int) -> None:
    model = small_transformer(num_encoder_layers=1, num_decoder_layers=1)
    add_adapters(model, LoraConfig(rank=5, target_modules=layers))
    learning = {name for name, weights in model.named_parameters() if weights.requires_grad}
    assert all(".adapters." in name for name in learning)
    assert named_weights(model).keys() == learning
    assert sum(weights.numel() for weights in named_weights(model).values()) == 5 * expected_count


def test_trainable_weights_have_no_adapters() -> None:
    model = random_model(1, kind="masked")
    trainable = {"head.dense.weight", "head.dense.bias"}
    add_adapters(model, LoraConfig(rank=1, target_modules="all"), trainable)
    plain = {name for name in named_weights(model) if ".adapters." not in name}
    assert plain == trainable


@pytest.mark.parametrize(
    ("variant", "layers", "remedy"),
    [
        (
            "LSTM",
            "queries_values",
            "Set training.lora.target_modules=all, or train all its weights",
        ),
        ("GRU without attention", "all", "Train all its weights"),
    ],
)
def test_models_without_target_modules_raise_errors(
    variant: str, layers: Layers, remedy: str
) -> None:
    with pytest.raises(ConfigError, match=remedy):
        add_adapters(make_model(variant), LoraConfig(rank=1, target_modules=layers))

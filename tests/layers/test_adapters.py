"""Low-rank adapters: what they add, what learns, and that merged models compute the same."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.data.batch import Batch, FertilityBatch, PermutedBatch
from regard.data.pairs import joined, with_ends
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.adapters import (
    AdaptedLinear,
    LoraConfig,
    LowRank,
    adapt,
    is_adapted,
    merge,
)
from regard.models.base import Model
from regard.models.folder import weights_of
from toys import EVERY_FORM, PARALLEL, any_model, pairs, sentences, small_model

TEXT = ("causal", "masked", "xl", "permuted")
FORMS: dict[str, dict[str, Any]] = {
    **{name: form for name, form in EVERY_FORM.items() if "without attention" not in name},
    **{name: {"kind": "nonautoregressive", **form} for name, form in PARALLEL.items()},
    **{kind: {"kind": kind} for kind in TEXT},
}
Layers = Literal["queries_values", "attention", "all"]


def model_of(form: str) -> Model:
    return any_model(2, **{"kind": "transformer", **{**EVERY_FORM, **FORMS}[form]})


def logits(model: Model) -> Tensor:
    """Of some batch that this kind of model reads."""
    batch, rows = pairs(6), sentences(6)
    if model.config.kind == "permuted":
        batch = PermutedBatch(Ragged.of(rows), Ragged.of(rows))
    elif model.config.kind in TEXT:
        batch = Batch(Ragged.of(rows), Ragged.of(rows))
    elif model.config.kind == "nonautoregressive":
        ones = joined([np.ones(len(row), np.int64) for row in rows], last=0)
        batch = FertilityBatch(with_ends(rows), with_ends(rows), fertilities=ones)
    found = model(batch)
    return model.projection(found.hidden)


def far_from_nothing(model: nn.Module) -> None:
    """As if adapters had learned much."""
    for module in model.modules():
        if isinstance(module, LowRank):
            nn.init.normal_(module.up, std=0.1)


@pytest.mark.parametrize("form", FORMS)
@torch.no_grad()
def test_it_begins_as_its_origin_and_merged_is_unmerged(form: str) -> None:
    origin, model = model_of(form), model_of(form)
    adapt(model, LoraConfig(rank=3, dropout=0.5, layers="all"))
    before = logits(origin)
    torch.testing.assert_close(logits(model), before, rtol=0, atol=1e-5)
    far_from_nothing(model)
    unmerged = logits(model)
    assert (unmerged - before).abs().max() > 1e-3
    merge(model)
    assert not is_adapted(model)
    assert weights_of(model).keys() == weights_of(origin).keys()
    torch.testing.assert_close(logits(model), unmerged, rtol=0, atol=1e-5)


def test_what_is_added_is_a_product_for_each_part_that_is_adapted() -> None:
    layer = Linear(6, 9)
    parts = {"query": 4, "key": 2, "value": 3}
    adapted = AdaptedLinear(layer, parts, LoraConfig(rank=2, alpha=6.0))
    far_from_nothing(adapted)
    added = torch.zeros(9, 6)
    for name, rows in (("query", slice(0, 4)), ("value", slice(6, 9))):
        own = adapted.adapters[name]
        assert isinstance(own, LowRank)
        added[rows] = 3.0 * own.up @ own.down
    assert [*adapted.adapters] == ["query", "value"]
    torch.testing.assert_close(adapted.weight, layer.weight + added)


def test_its_gradients_are_those_of_two_small_layers_beside_the_large_one() -> None:
    torch.manual_seed(1)
    layer, x = Linear(6, 5), torch.randn(7, 6)
    adapted = AdaptedLinear(layer, {"whole": 5}, LoraConfig(rank=2, alpha=3.0, layers="all"))
    far_from_nothing(adapted)
    own = adapted.adapters["whole"]
    assert isinstance(own, LowRank)
    layer.weight.requires_grad_(False)
    paper = layer(x) + 1.5 * x @ own.down.t() @ own.up.t()
    expected = torch.autograd.grad((paper**3).sum(), [own.down, own.up])
    found = torch.autograd.grad((adapted(x) ** 3).sum(), [own.down, own.up])
    torch.testing.assert_close(adapted(x), paper)
    torch.testing.assert_close(found, expected)


def test_dropout_hides_inputs_from_an_adapter_and_leaves_the_mean() -> None:
    layer = AdaptedLinear(
        Linear(8, 4), {"whole": 4}, LoraConfig(rank=2, dropout=0.25, layers="all")
    )
    far_from_nothing(layer)
    whole = layer.eval().weight.detach()
    layer.train()
    torch.manual_seed(5)
    drawn = torch.stack([layer.weight.detach() for _ in range(4000)])
    torch.testing.assert_close(drawn.mean(0), whole, atol=0.05, rtol=0)
    added, expected = drawn - layer.frozen, (whole - layer.frozen) / 0.75
    hidden = (added == 0).all(1)  # (4000, 8): inputs, each of them hidden or not
    assert 0.23 < hidden.float().mean() < 0.27
    torch.testing.assert_close(added, ~hidden[:, None] * expected.expand_as(added))
    torch.testing.assert_close(layer.merged().weight, whole)


@pytest.mark.parametrize(
    ("layers", "numbers"),
    [
        # Of an encoder block and a decoder block: queries and values once, and twice.
        ("queries_values", 3 * 2 * (32 + 32)),
        ("attention", 3 * 4 * (32 + 32)),
        ("all", 3 * 4 * (32 + 32) + 2 * 2 * (32 + 48)),
    ],
)
def test_only_adapters_learn(layers: Layers, numbers: int) -> None:
    model = small_model(encoder_layers=1, decoder_layers=1)
    adapt(model, LoraConfig(rank=5, layers=layers))
    learning = {name for name, weights in model.named_parameters() if weights.requires_grad}
    assert all(".adapters." in name for name in learning)
    assert weights_of(model).keys() == learning
    assert sum(weights.numel() for weights in weights_of(model).values()) == 5 * numbers


def test_fresh_weights_learn_as_they_are() -> None:
    model = any_model(1, kind="masked")
    fresh = {"head.dense.weight", "head.dense.bias"}
    adapt(model, LoraConfig(rank=1, layers="all"), fresh)
    plain = {name for name in weights_of(model) if ".adapters." not in name}
    assert plain == fresh


@pytest.mark.parametrize(
    ("form", "layers", "remedy"),
    [
        ("LSTM", "queries_values", "Set training.lora.layers=all, or train all its weights"),
        ("GRU without attention", "all", "Train all its weights"),
    ],
)
def test_a_model_without_such_layers_is_refused(form: str, layers: Layers, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        adapt(model_of(form), LoraConfig(rank=1, layers=layers))

"""Multi-head attention against its definition, with various `key_dim`."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.config import AttentionShape
from regard.attention.multihead import CrossAttention, SelfAttention
from regard.data.ragged import Lengths
from regard.models.transformer import Transformer
from toys import pairs, small_transformer

WIDTH, HEADS = 32, 4  # of `small_model`


def size(model: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


def by_definition(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One head after the other: `softmax(q k^T / sqrt(d)) v`."""
    parts = zip(*(x.chunk(HEADS, 1) for x in (query, key, value)), strict=True)
    return torch.cat([((q @ k.T) / k.shape[1] ** 0.5).softmax(-1) @ v for q, k, v in parts], 1)


@pytest.mark.parametrize("key_dim", [1, 3, 8, 20])
def test_self_attention_matches_the_definition(key_dim: int) -> None:
    torch.manual_seed(0)
    module, keys = SelfAttention(AttentionShape(WIDTH, HEADS, key_dim)), HEADS * key_dim
    x = torch.randn(5, WIDTH)
    expected = by_definition(*module.project(x).split([keys, keys, WIDTH], dim=1))
    actual = module(x, Lengths.of([5]), causal=False)
    torch.testing.assert_close(actual, module.combine(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("key_dim", [1, 3, 8, 20])
def test_cross_attention_matches_the_definition(key_dim: int) -> None:
    torch.manual_seed(0)
    module, keys = CrossAttention(AttentionShape(WIDTH, HEADS, key_dim)), HEADS * key_dim
    x, memory = torch.randn(5, WIDTH), torch.randn(7, WIDTH)
    expected = by_definition(module.query(x), *module.memory(memory).split([keys, WIDTH], dim=1))
    actual = module(x, Lengths.of([5]), memory, Lengths.of([7]))
    torch.testing.assert_close(actual, module.combine(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("key_dim", [1, 3, 20])
def test_key_dim_only_changes_queries_and_keys(key_dim: int) -> None:
    attentions = 2 + 2 * 2  # one in each block of the encoder, two in each of the decoder
    more = attentions * 2 * (WIDTH + 1) * (HEADS * key_dim - WIDTH)
    assert size(small_transformer(key_dim=key_dim)) - size(small_transformer()) == more


def test_explicit_default_key_dim_gives_the_same_model() -> None:
    default, explicit = small_transformer(3), small_transformer(3, key_dim=WIDTH // HEADS)
    for default_weight, explicit_weight in zip(
        default.parameters(), explicit.parameters(), strict=True
    ):
        assert torch.equal(default_weight, explicit_weight)
    batch = pairs(4)
    assert torch.equal(default(batch).hidden, explicit(batch).hidden)


def test_packed_projections_are_initialized_and_trained_per_part() -> None:
    shape = small_transformer(key_dim=3)
    model = Transformer(shape.config, shape.vocabulary)
    model(pairs(6)).hidden.square().sum().backward()
    actual = [module for module in model.modules() if isinstance(module, SelfAttention)]
    crossed = [module for module in model.modules() if isinstance(module, CrossAttention)]
    assert (len(actual), len(crossed)) == (4, 2)
    products = [(module.project.weight, module.sizes) for module in actual]
    products += [(module.memory.weight, module.sizes) for module in crossed]
    products += [(module.query.weight, [HEADS * 3]) for module in crossed]
    for weight, sizes in products:
        assert weight.grad is not None
        assert (weight.grad.abs().sum(1) > 0).all()
        for part in weight.split(sizes):
            bound = (6 / sum(part.shape)) ** 0.5  # Glorot's
            assert 0.9 * bound < float(part.detach().abs().max()) <= bound

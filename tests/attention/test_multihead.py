"""Heads whose queries and keys have a width of their own."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.attention.config import AttentionShape
from regard.attention.multihead import CrossAttention, SelfAttention
from regard.data.ragged import Lengths
from regard.models.transformer import Transformer
from toys import pairs, small_model

WIDTH, HEADS = 32, 4  # of `small_model`


def size(model: torch.nn.Module) -> int:
    return sum(weights.numel() for weights in model.parameters())


def by_definition(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """One head after the other: `softmax(q k^T / sqrt(d)) v`."""
    parts = zip(*(x.chunk(HEADS, 1) for x in (query, key, value)), strict=True)
    return torch.cat([((q @ k.T) / k.shape[1] ** 0.5).softmax(-1) @ v for q, k, v in parts], 1)


@pytest.mark.parametrize("key_width", [1, 3, 8, 20])
def test_each_head_is_attention_by_the_definition(key_width: int) -> None:
    torch.manual_seed(0)
    module, keys = SelfAttention(AttentionShape(WIDTH, HEADS, key_width)), HEADS * key_width
    x = torch.randn(5, WIDTH)
    expected = by_definition(*module.project(x).split([keys, keys, WIDTH], dim=1))
    found = module(x, Lengths.of([5]), causal=False)
    torch.testing.assert_close(found, module.combine(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("key_width", [1, 3, 8, 20])
def test_so_is_attention_to_another_sentence(key_width: int) -> None:
    torch.manual_seed(0)
    module, keys = CrossAttention(AttentionShape(WIDTH, HEADS, key_width)), HEADS * key_width
    x, memory = torch.randn(5, WIDTH), torch.randn(7, WIDTH)
    expected = by_definition(module.query(x), *module.memory(memory).split([keys, WIDTH], dim=1))
    found = module(x, Lengths.of([5]), memory, Lengths.of([7]))
    torch.testing.assert_close(found, module.combine(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("key_width", [1, 3, 20])
def test_only_queries_and_keys_grow(key_width: int) -> None:
    attentions = 2 + 2 * 2  # one in each block of the encoder, two in each of the decoder
    more = attentions * 2 * (WIDTH + 1) * (HEADS * key_width - WIDTH)
    assert size(small_model(key_width=key_width)) - size(small_model()) == more


def test_the_usual_width_is_the_usual_model() -> None:
    plain, told = small_model(3), small_model(3, key_width=WIDTH // HEADS)
    for one, other in zip(plain.parameters(), told.parameters(), strict=True):
        assert torch.equal(one, other)
    batch = pairs(4)
    assert torch.equal(plain(batch).hidden, told(batch).hidden)


def test_queries_keys_and_values_learn_and_begin_as_each_would_alone() -> None:
    shape = small_model(key_width=3)
    model = Transformer(shape.config, shape.vocabulary)
    model(pairs(6)).hidden.square().sum().backward()
    found = [module for module in model.modules() if isinstance(module, SelfAttention)]
    crossed = [module for module in model.modules() if isinstance(module, CrossAttention)]
    assert (len(found), len(crossed)) == (4, 2)
    products = [(module.project.weight, module.sizes) for module in found]
    products += [(module.memory.weight, module.sizes) for module in crossed]
    products += [(module.query.weight, [HEADS * 3]) for module in crossed]
    for weight, sizes in products:
        assert weight.grad is not None
        assert (weight.grad.abs().sum(1) > 0).all()
        for part in weight.split(sizes):
            bound = (6 / sum(part.shape)) ** 0.5  # Glorot's
            assert 0.9 * bound < float(part.detach().abs().max()) <= bound

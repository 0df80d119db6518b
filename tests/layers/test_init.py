"""Initial attention scores have unit variance."""

from __future__ import annotations

import pytest
import torch

from regard.attention.config import AttentionConfig, AttentionShape
from regard.attention.multihead import CrossAttention, SelfAttention
from regard.layers.init import Initialization, initialize


@pytest.mark.parametrize("heads", [1, 4, 16])
@pytest.mark.parametrize(("kind", "score"), [("paper", "scaled_dot"), ("t5", "dot")])
@torch.no_grad()
def test_initial_scores_have_unit_variance(kind: Initialization, score: str, heads: int) -> None:
    torch.manual_seed(0)
    config = AttentionConfig(score=score)  # type: ignore[arg-type]
    shape = AttentionShape(256, heads, config=config)
    attention, cross_attention = SelfAttention(shape), CrossAttention(shape)
    for module in (attention, cross_attention):
        initialize(module, kind)
    x, encoder_output = torch.randn(2, 300, 256)
    query, key, _ = attention.project(x).split(attention.sizes, -1)
    pairs = [
        (query, key),
        (
            cross_attention.query(x),
            cross_attention.memory(encoder_output)[:, : cross_attention.sizes[0]],
        ),
    ]
    for queries, keys in pairs:
        parts = [part.unflatten(-1, (heads, -1)).transpose(0, 1) for part in (queries, keys)]
        assert float(attention.score(*parts).var()) == pytest.approx(1, rel=0.15)


@torch.no_grad()
def test_unscaled_scores_grow_with_the_dimension() -> None:
    torch.manual_seed(0)
    module = SelfAttention(AttentionShape(256, 1, config=AttentionConfig(score="dot")))
    initialize(module, "paper")
    query, key, _ = module.project(torch.randn(300, 256)).split(module.sizes, -1)
    assert float((query @ key.T).var()) == pytest.approx(256, rel=0.15)

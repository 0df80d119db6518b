"""Embedding: word dropout and embedding dropout."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.positions import SinusoidalPositions
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from toys import small_transformer

TOKENS = torch.arange(5000) % 50
POSITIONS = torch.arange(5000) % 12


def embedding(*, dropout: float = 0.0, word_dropout: float = 0.0) -> Embedding:
    torch.manual_seed(0)
    positions = SinusoidalPositions(16, "interleaved")
    return Embedding(
        nn.Embedding(50, 16), positions, scale=4.0, dropout=dropout, word_dropout=word_dropout
    )


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_word_dropout_keeps_the_position(rate: float) -> None:
    module = embedding(word_dropout=rate).train()
    actual = module(TOKENS, POSITIONS, 12)
    assert module.positions is not None
    positions = module.positions(POSITIONS, 12)
    dropped = (actual == positions).all(1)
    kept = (actual == module.table(TOKENS) * 4.0 + positions).all(1)
    assert (dropped ^ kept).all()
    # Four standard deviations of 5,000 draws.
    assert float(dropped.float().mean()) == pytest.approx(
        rate, abs=4 * (rate * (1 - rate) / 5000) ** 0.5
    )


def test_dropped_tokens_have_no_gradient() -> None:
    module = embedding(word_dropout=0.5).train()
    assert module.positions is not None
    actual = module(torch.arange(50), POSITIONS[:50], 12)
    dropped = (actual == module.positions(POSITIONS[:50], 12)).all(1)
    actual.sum().backward()
    assert module.table.weight.grad is not None
    assert torch.equal(module.table.weight.grad.abs().sum(1) == 0, dropped)


def test_no_word_dropout_in_evaluation() -> None:
    plain, dropping = embedding().eval(), embedding(word_dropout=0.9, dropout=0.9).eval()
    assert torch.equal(dropping(TOKENS, POSITIONS, 12), plain(TOKENS, POSITIONS, 12))


@pytest.mark.parametrize(("embedding_dropout", "expected"), [(None, 0.3), (0.0, 0.0), (0.1, 0.1)])
def test_embedding_dropout_defaults_to_dropout(
    embedding_dropout: float | None, expected: float
) -> None:
    model = small_transformer(dropout=0.3, embedding_dropout=embedding_dropout, word_dropout=0.2)
    for module in (model.source_embedding, model.target_embedding):
        assert (module.dropout.p, module.word_dropout) == (expected, 0.2)
    kinds = {m.p for m in model.encoder.modules() if isinstance(m, Dropout)}
    assert kinds == {0.3, 0.0}  # of sub-layers, and inside feed-forward

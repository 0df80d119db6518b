"""Tokens to vectors: which of them are read, and what is left of those that are not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.positions import SinusoidalPositions
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from toys import small_model

TOKENS = torch.arange(5000) % 50
POSITIONS = torch.arange(5000) % 12


def embedding(*, dropout: float = 0.0, word_dropout: float = 0.0) -> Embedding:
    torch.manual_seed(0)
    positions = SinusoidalPositions(16, "interleaved")
    return Embedding(
        nn.Embedding(50, 16), positions, scale=4.0, dropout=dropout, word_dropout=word_dropout
    )


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_of_a_dropped_word_the_position_is_left(share: float) -> None:
    module = embedding(word_dropout=share).train()
    found = module(TOKENS, POSITIONS, 12)
    assert module.positions is not None
    places = module.positions(POSITIONS, 12)
    dropped = (found == places).all(1)
    whole = (found == module.table(TOKENS) * 4.0 + places).all(1)
    assert (dropped ^ whole).all()
    # Four standard deviations of 5,000 draws.
    assert float(dropped.float().mean()) == pytest.approx(
        share, abs=4 * (share * (1 - share) / 5000) ** 0.5
    )


def test_a_dropped_word_is_not_learned_from() -> None:
    module = embedding(word_dropout=0.5).train()
    assert module.positions is not None
    found = module(torch.arange(50), POSITIONS[:50], 12)
    dropped = (found == module.positions(POSITIONS[:50], 12)).all(1)
    found.sum().backward()
    assert module.table.weight.grad is not None
    assert torch.equal(module.table.weight.grad.abs().sum(1) == 0, dropped)


def test_every_word_is_read_when_translating() -> None:
    plain, dropping = embedding().eval(), embedding(word_dropout=0.9, dropout=0.9).eval()
    assert torch.equal(dropping(TOKENS, POSITIONS, 12), plain(TOKENS, POSITIONS, 12))


@pytest.mark.parametrize(("given", "used"), [(None, 0.3), (0.0, 0.0), (0.1, 0.1)])
def test_embeddings_have_the_dropout_of_all_unless_told_otherwise(
    given: float | None, used: float
) -> None:
    model = small_model(dropout=0.3, embedding_dropout=given, word_dropout=0.2)
    for module in (model.source_embedding, model.target_embedding):
        assert (module.dropout.share, module.word_dropout) == (used, 0.2)
    kinds = {m.share for m in model.encoder.modules() if isinstance(m, Dropout)}
    assert kinds == {0.3, 0.0}  # of sub-layers, and inside feed-forward

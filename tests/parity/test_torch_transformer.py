"""Parity with `torch.nn.Transformer`: equal weights give equal hidden states and gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from parity.weights import (
    for_each_block,
    padded,
    random_sentences,
    shake,
    under_our_names,
)
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.layers.embedding import Embedding
from regard.layers.feedforward import Activation
from regard.layers.residual import NormOrder
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.special import SPECIAL

pytestmark = [
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but:UserWarning"),
    pytest.mark.parametrize("norm_order", ["post", "pre"]),
    pytest.mark.parametrize("activation", ["relu", "gelu"]),
]

ENCODER_LAYERS, DECODER_LAYERS = 2, 3
VOCABULARY = Vocabulary(source=60, target=50)
SOURCES = random_sentences([6, 0, 11, 3], VOCABULARY.source, seed=1)
TARGETS = random_sentences([4, 9, 0, 5], VOCABULARY.target, seed=2)

ENCODER_BLOCK = {
    "attention.project": ["self_attn.query", "self_attn.key", "self_attn.value"],
    "attention.combine": ["self_attn.out_proj"],
    "attention_residual.norm": ["norm1"],
    "feedforward.expand": ["linear1"],
    "feedforward.contract": ["linear2"],
    "feedforward_residual.norm": ["norm2"],
}
DECODER_BLOCK = {
    "attention.project": ["self_attn.query", "self_attn.key", "self_attn.value"],
    "attention.combine": ["self_attn.out_proj"],
    "attention_residual.norm": ["norm1"],
    "cross.query": ["multihead_attn.query"],
    "cross.memory": ["multihead_attn.key", "multihead_attn.value"],
    "cross.combine": ["multihead_attn.out_proj"],
    "cross_residual.norm": ["norm2"],
    "feedforward.expand": ["linear1"],
    "feedforward.contract": ["linear2"],
    "feedforward_residual.norm": ["norm3"],
}
LAYERS = {
    **for_each_block("encoder.blocks", "encoder.layers", ENCODER_LAYERS, ENCODER_BLOCK),
    "encoder.norm": ["encoder.norm"],
    **for_each_block("decoder.blocks", "decoder.layers", DECODER_LAYERS, DECODER_BLOCK),
    "decoder.norm": ["decoder.norm"],
}
OUR_TABLES = ["source_embedding.table.weight", "target_embedding.table.weight", "projection.weight"]


def from_torch(theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """PyTorch's weights by our names, with packed `in_proj_weight` split."""
    parts = dict(theirs)
    for name in theirs:
        layer, _, kind = name.partition(".in_proj_")
        if kind:
            for part, rows in zip(("query", "key", "value"), parts.pop(name).chunk(3), strict=True):
                parts[f"{layer}.{part}.{kind}"] = rows
    return under_our_names(parts, LAYERS)


@dataclass(frozen=True)
class Pair:
    """Our model and PyTorch's with equal weights."""

    ours: Transformer
    theirs: nn.Transformer

    @staticmethod
    def of(norm_order: NormOrder, activation: Activation) -> Pair:
        torch.manual_seed(3)
        config = TransformerConfig(
            num_encoder_layers=ENCODER_LAYERS,
            num_decoder_layers=DECODER_LAYERS,
            d_model=32,
            num_heads=4,
            ffn_dim=48,
            activation=activation,
            dropout=0.0,
            norm_order=norm_order,
            final_norm=True,
            tied_embeddings="none",
        )
        theirs = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_encoder_layers,
            config.num_decoder_layers,
            config.ffn_dim,
            config.dropout,
            activation=activation,
            norm_first=norm_order == "pre",
            batch_first=True,
        )
        ours = Transformer(config, VOCABULARY)
        shake(theirs)
        shake(ours)
        ours.load_state_dict(ours.state_dict() | from_torch(theirs.state_dict()))
        return Pair(ours.eval(), theirs.eval())

    def our_hidden(self) -> Tensor:
        hidden: Tensor = self.ours(Batch(with_eos(SOURCES), with_eos(TARGETS))).hidden
        return hidden

    def their_hidden(self) -> Tensor:
        source, real_source = padded(
            [embedded(self.ours.source_embedding, [*ids, SPECIAL.eos]) for ids in SOURCES]
        )
        target, real_target = padded(
            [embedded(self.ours.target_embedding, [SPECIAL.bos, *ids]) for ids in TARGETS]
        )
        length = target.shape[1]
        hidden: Tensor = self.theirs(
            source,
            target,
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            src_key_padding_mask=~real_source,
            memory_key_padding_mask=~real_source,
        )
        return hidden[real_target]


def embedded(embedding: Embedding, ids: list[int]) -> Tensor:
    vectors: Tensor = embedding(torch.tensor(ids), torch.arange(len(ids)), len(ids))
    return vectors


def gradients(loss: Tensor, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    results = torch.autograd.grad(loss, list(weights.values()), retain_graph=True)
    return dict(zip(weights, results, strict=True))


def test_same_hidden_states_and_logits(norm_order: NormOrder, activation: Activation) -> None:
    pair = Pair.of(norm_order, activation)
    ours, theirs = pair.our_hidden(), pair.their_hidden()
    assert_close(ours, theirs, atol=1e-5, rtol=0)
    assert_close(pair.ours.projection(ours), pair.ours.projection(theirs), atol=1e-5, rtol=0)


def test_same_gradients(norm_order: NormOrder, activation: Activation) -> None:
    pair = Pair.of(norm_order, activation)
    pair.ours.double()
    pair.theirs.double()
    our_weights, their_weights = (dict(m.named_parameters()) for m in (pair.ours, pair.theirs))
    our_loss, their_loss = (
        pair.ours.projection(hidden).square().sum()
        for hidden in (pair.our_hidden(), pair.their_hidden())
    )
    tables = {name: our_weights[name] for name in OUR_TABLES}
    assert_close(
        gradients(our_loss, our_weights),
        gradients(their_loss, tables) | from_torch(gradients(their_loss, their_weights)),
        atol=1e-9,
        rtol=1e-9,
    )

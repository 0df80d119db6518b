"""Parity with HuggingFace's XLNet: one or two streams, memory and segments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from parity.permutations import LENGTH, ROWS, as_theirs, batch_of, logits, orders
from parity.weights import shake
from regard.data.batch import PermutedBatch
from regard.data.ragged import Lengths, Ragged
from regard.layers.segment_recurrence import Memory
from regard.models.permuted import Permuted, PermutedConfig
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")

VOCABULARY_SIZE = 50
OUR_ACTIVATION = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "silu": "silu"}
CONFIGS: dict[str, dict[str, Any]] = {
    "default": {},
    "ReLU, untied": {"ff_activation": "relu", "tie_word_embeddings": False},
    "clamped": {"ff_activation": "gelu_new", "clamp_len": 5, "layer_norm_eps": 1e-3},
    "one wide head": {"ff_activation": "silu", "n_head": 1, "n_layer": 1},
}
every_config = pytest.mark.parametrize("name", CONFIGS)


def xlnet(**changes: Any) -> Any:
    """A small XLNet with random weights, in evaluation mode."""
    torch.manual_seed(4)
    sizes = {"vocab_size": VOCABULARY_SIZE, "d_model": 24, "n_layer": 3, "n_head": 4, "d_inner": 40}
    model = transformers.XLNetLMHeadModel(
        transformers.XLNetConfig(**{**sizes, "mem_len": 8, **changes})
    )
    shake(model)
    return model.eval()


@torch.no_grad()
def convert(theirs: Any) -> Permuted:
    """Our model with the same weights."""
    config = theirs.config
    shape = PermutedConfig(
        d_model=config.d_model,
        num_layers=config.n_layer,
        num_heads=config.n_head,
        ffn_dim=config.d_inner,
        activation=OUR_ACTIVATION[config.ff_activation],  # type: ignore[arg-type]
        norm_eps=config.layer_norm_eps,
        max_distance=config.clamp_len if config.clamp_len > 0 else None,
        memory_length=config.mem_len,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
        segment_documents=False,
        dropout=0.0,
    )
    model = Permuted(shape, Vocabulary(VOCABULARY_SIZE, VOCABULARY_SIZE)).eval()
    assert model.projection.bias is not None
    their_model = theirs.transformer
    model.embedding.table.weight.copy_(their_model.word_embedding.weight)
    model.question.copy_(their_model.mask_emb.flatten())
    model.projection.weight.copy_(theirs.lm_loss.weight)
    model.projection.bias.copy_(theirs.lm_loss.bias)
    for our_block, their_block in zip(model.encoder.blocks, their_model.layer, strict=True):
        block: Any = our_block
        attention, score, rel, ff = (
            block.attention,
            block.attention.score,
            their_block.rel_attn,
            their_block.ff,
        )
        heads = [part.flatten(1).t() for part in (rel.q, rel.k, rel.v)]
        attention.project.weight.copy_(torch.cat(heads))
        attention.combine.weight.copy_(rel.o.flatten(1))
        score.distance.weight.copy_(rel.r.flatten(1).t())
        score.key_bias.copy_(rel.r_w_bias.unsqueeze(1))
        score.distance_bias.copy_(rel.r_r_bias.unsqueeze(1))
        block.segments.bias.copy_(rel.r_s_bias.unsqueeze(1))
        block.segments.table.copy_(rel.seg_embed.transpose(0, 1))
        for ours_output, their_layer in (
            (block.attention_residual.norm, rel.layer_norm),
            (block.feedforward_residual.norm, ff.layer_norm),
            (block.feedforward.expand, ff.layer_1),
            (block.feedforward.contract, ff.layer_2),
        ):
            ours_output.weight.copy_(their_layer.weight)
            ours_output.bias.copy_(their_layer.bias)
    return model


def texts(*, seed: int, length: int = LENGTH) -> Tensor:
    """Any ids but padding. (B, T)"""
    torch.manual_seed(seed)
    return torch.randint(1, VOCABULARY_SIZE, (ROWS, length))


def assert_same(actual_tensor: Tensor, their_block: Tensor) -> None:
    torch.testing.assert_close(actual_tensor, their_block, rtol=1e-4, atol=1e-4)


@every_config
@torch.no_grad()
def test_bidirectional_attention(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    tokens = texts(seed=1)
    tokens[:, 4] = SPECIAL.eos  # a normal token in HuggingFace's model
    assert_same(logits(convert(theirs)(batch_of(tokens))), theirs(tokens).logits)


@every_config
@torch.no_grad()
def test_two_streams(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    tokens, ranks = texts(seed=1), orders(seed=2)
    predictions = convert(theirs)(batch_of(tokens, ranks=ranks))
    assert_same(logits(predictions), theirs(tokens, **as_theirs(ranks)).logits)


@every_config
@torch.no_grad()
def test_segment_recurrence(name: str) -> None:
    """Three segments with one or two streams, and a memory shorter than them."""
    theirs = xlnet(**CONFIGS[name])
    ours = convert(theirs)
    memory: Memory | None = None
    past = None
    for seed, permuted in ((1, False), (2, True), (3, True)):
        tokens = texts(seed=seed)
        ranks = orders(seed=seed) if permuted else None
        our_output = ours(batch_of(tokens, ranks=ranks), memory=memory)
        more = as_theirs(ranks) if ranks is not None else {}
        their_output = theirs(tokens, mems=past, use_mems=True, **more)
        assert_same(logits(our_output), their_output.logits)
        memory, past = our_output.memory, their_output.mems
        assert memory is not None
        for our_states, their_states in zip(memory.states, past, strict=True):
            assert_same(our_states, their_states.transpose(0, 1))
        assert memory.length == 8


@every_config
@torch.no_grad()
def test_segments(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    ours = convert(theirs)
    tokens, ranks = texts(seed=1), orders(seed=2)
    types = (torch.arange(LENGTH) >= torch.tensor([[4], [7], [11]])).long()
    one_stream = ours(batch_of(tokens, types=types))
    assert_same(logits(one_stream), theirs(tokens, token_type_ids=types).logits)
    assert not torch.allclose(logits(one_stream), logits(ours(batch_of(tokens))))
    previous = ours(batch_of(tokens, types=types)), theirs(tokens, token_type_ids=types)
    two_streams = ours(batch_of(tokens, ranks=ranks, types=types), memory=previous[0].memory)
    expected = theirs(tokens, token_type_ids=types, mems=previous[1].mems, **as_theirs(ranks))
    assert_same(logits(two_streams), expected.logits)


@torch.no_grad()
def test_rows_of_different_lengths() -> None:
    theirs = xlnet()
    tokens, sizes = texts(seed=1), [11, 4, 8]
    mask = torch.arange(LENGTH) < torch.tensor(sizes)[:, None]
    text = Ragged(tokens[mask], Lengths.of(sizes))
    predictions = convert(theirs)(PermutedBatch(text, text))
    expected = theirs(tokens, attention_mask=mask.float()).logits[mask]
    assert_same(predictions.project(predictions.hidden), expected)

"""Ours and HuggingFace's XLNet from equal weights: one stream or two, with memory and segments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from parity.permutations import LENGTH, ROWS, as_theirs, batch_of, logits, orders
from parity.weights import shake
from regard.data.batch import PermutedBatch
from regard.data.ragged import Lengths, Ragged
from regard.layers.recall import Memory
from regard.models.permuted import Permuted, PermutedConfig
from regard.models.protocol import Vocabulary
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")

WORDS = 50
OUR_ACTIVATION = {"gelu": "gelu", "relu": "relu", "gelu_new": "gelu_tanh", "silu": "silu"}
CONFIGS: dict[str, dict[str, Any]] = {
    "its own": {},
    "ReLU, untied": {"ff_activation": "relu", "tie_word_embeddings": False},
    "clamped": {"ff_activation": "gelu_new", "clamp_len": 5, "layer_norm_eps": 1e-3},
    "one wide head": {"ff_activation": "silu", "n_head": 1, "n_layer": 1},
}
every_config = pytest.mark.parametrize("name", CONFIGS)


def xlnet(**changes: Any) -> Any:
    """A small XLNet with random weights, in evaluation mode."""
    torch.manual_seed(4)
    sizes = {"vocab_size": WORDS, "d_model": 24, "n_layer": 3, "n_head": 4, "d_inner": 40}
    model = transformers.XLNetLMHeadModel(
        transformers.XLNetConfig(**{**sizes, "mem_len": 8, **changes})
    )
    shake(model)
    return model.eval()


@torch.no_grad()
def ours_from(theirs: Any) -> Permuted:
    """The same model as ours."""
    config = theirs.config
    shape = PermutedConfig(
        width=config.d_model,
        layers=config.n_layer,
        heads=config.n_head,
        feedforward_width=config.d_inner,
        activation=OUR_ACTIVATION[config.ff_activation],  # type: ignore[arg-type]
        norm_epsilon=config.layer_norm_eps,
        max_distance=config.clamp_len if config.clamp_len > 0 else None,
        memory=config.mem_len,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
        segment_documents=False,
        dropout=0.0,
    )
    model = Permuted(shape, Vocabulary(WORDS, WORDS)).eval()
    assert model.projection.bias is not None
    there = theirs.transformer
    model.embedding.table.weight.copy_(there.word_embedding.weight)
    model.question.copy_(there.mask_emb.flatten())
    model.projection.weight.copy_(theirs.lm_loss.weight)
    model.projection.bias.copy_(theirs.lm_loss.bias)
    for own, other in zip(model.encoder.blocks, there.layer, strict=True):
        block: Any = own
        attention, score, rel, ff = block.attention, block.attention.score, other.rel_attn, other.ff
        heads = [part.flatten(1).t() for part in (rel.q, rel.k, rel.v)]
        attention.project.weight.copy_(torch.cat(heads))
        attention.combine.weight.copy_(rel.o.flatten(1))
        score.distance.weight.copy_(rel.r.flatten(1).t())
        score.key_bias.copy_(rel.r_w_bias.unsqueeze(1))
        score.distance_bias.copy_(rel.r_r_bias.unsqueeze(1))
        block.segments.bias.copy_(rel.r_s_bias.unsqueeze(1))
        block.segments.table.copy_(rel.seg_embed.transpose(0, 1))
        for mine, their_layer in (
            (block.attention_residual.norm, rel.layer_norm),
            (block.feedforward_residual.norm, ff.layer_norm),
            (block.feedforward.expand, ff.layer_1),
            (block.feedforward.contract, ff.layer_2),
        ):
            mine.weight.copy_(their_layer.weight)
            mine.bias.copy_(their_layer.bias)
    return model


def texts(*, seed: int, length: int = LENGTH) -> Tensor:
    """Any ids but padding. (B, T)"""
    torch.manual_seed(seed)
    return torch.randint(1, WORDS, (ROWS, length))


def same(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@every_config
@torch.no_grad()
def test_each_sees_all(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    tokens = texts(seed=1)
    tokens[:, 4] = SPECIAL.end  # which is a word like others to them
    same(logits(ours_from(theirs)(batch_of(tokens))), theirs(tokens).logits)


@every_config
@torch.no_grad()
def test_two_streams(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    tokens, ranks = texts(seed=1), orders(seed=2)
    found = ours_from(theirs)(batch_of(tokens, ranks=ranks))
    same(logits(found), theirs(tokens, **as_theirs(ranks)).logits)


@every_config
@torch.no_grad()
def test_a_memory(name: str) -> None:
    """Three segments, one stream or two, and a memory that forgets the first tokens."""
    theirs = xlnet(**CONFIGS[name])
    ours = ours_from(theirs)
    memory: Memory | None = None
    past = None
    for seed, permuted in ((1, False), (2, True), (3, True)):
        tokens = texts(seed=seed)
        ranks = orders(seed=seed) if permuted else None
        mine = ours(batch_of(tokens, ranks=ranks), memory=memory)
        more = as_theirs(ranks) if ranks is not None else {}
        there = theirs(tokens, mems=past, use_mems=True, **more)
        same(logits(mine), there.logits)
        memory, past = mine.memory, there.mems
        assert memory is not None
        for own, other in zip(memory.states, past, strict=True):
            same(own, other.transpose(0, 1))
        assert memory.length == 8


@every_config
@torch.no_grad()
def test_segments(name: str) -> None:
    theirs = xlnet(**CONFIGS[name])
    ours = ours_from(theirs)
    tokens, ranks = texts(seed=1), orders(seed=2)
    types = (torch.arange(LENGTH) >= torch.tensor([[4], [7], [11]])).long()
    plain = ours(batch_of(tokens, types=types))
    same(logits(plain), theirs(tokens, token_type_ids=types).logits)
    assert not torch.allclose(logits(plain), logits(ours(batch_of(tokens))))
    before = ours(batch_of(tokens, types=types)), theirs(tokens, token_type_ids=types)
    both = ours(batch_of(tokens, ranks=ranks, types=types), memory=before[0].memory)
    wanted = theirs(tokens, token_type_ids=types, mems=before[1].mems, **as_theirs(ranks))
    same(logits(both), wanted.logits)


@torch.no_grad()
def test_rows_of_unequal_length() -> None:
    theirs = xlnet()
    tokens, sizes = texts(seed=1), [11, 4, 8]
    real = torch.arange(LENGTH) < torch.tensor(sizes)[:, None]
    text = Ragged(tokens[real], Lengths.of(sizes))
    found = ours_from(theirs)(PermutedBatch(text, text))
    wanted = theirs(tokens, attention_mask=real.float()).logits[real]
    same(found.project(found.hidden), wanted)

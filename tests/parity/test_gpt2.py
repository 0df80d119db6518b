"""Ours and HuggingFace's GPT-2 from equal weights: equal logits, equal texts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.ragged import Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.models.causal import Causal, CausalConfig
from regard.models.protocol import Vocabulary

transformers = pytest.importorskip("transformers")

WORDS = 50
OUR_ACTIVATION = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}


def gpt2(activation: str = "gelu_new", *, tied: bool = True, epsilon: float = 1e-5) -> Any:
    """A small GPT-2 with random weights, in evaluation mode."""
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=WORDS,
        n_positions=32,
        n_embd=24,
        n_layer=3,
        n_head=4,
        n_inner=40,
        activation_function=activation,
        layer_norm_epsilon=epsilon,
        tie_word_embeddings=tied,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


@torch.no_grad()
def ours_from(theirs: Any) -> Causal:
    """The same model as ours."""
    config = theirs.config
    shape = CausalConfig(
        width=config.n_embd,
        layers=config.n_layer,
        heads=config.n_head,
        feedforward_width=config.n_inner,
        activation=OUR_ACTIVATION[config.activation_function],  # type: ignore[arg-type]
        norm_order="pre",
        norm_epsilon=config.layer_norm_epsilon,
        positions="learned",
        max_positions=config.n_positions,
        scale_embedding=False,
        dropout=0.0,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
    )
    model = Causal(shape, Vocabulary(WORDS, WORDS)).eval()
    there = theirs.transformer

    def put(own: Any, weight: Tensor, bias: Tensor) -> None:
        own.weight.copy_(weight)
        own.bias.copy_(bias)

    def put_turned(own: Any, other: Any) -> None:
        put(own, other.weight.t(), other.bias)

    assert isinstance(model.embedding.positions, nn.Module)
    model.embedding.table.weight.copy_(there.wte.weight)
    model.embedding.positions.table.weight.copy_(there.wpe.weight)  # type: ignore[union-attr, operator]
    model.projection.weight.copy_(theirs.lm_head.weight)
    put(model.encoder.norm, there.ln_f.weight, there.ln_f.bias)
    for own, other in zip(model.encoder.blocks, there.h, strict=True):
        block: Any = own
        put(block.attention_residual.norm, other.ln_1.weight, other.ln_1.bias)
        put(block.feedforward_residual.norm, other.ln_2.weight, other.ln_2.bias)
        put_turned(block.attention.project, other.attn.c_attn)
        put_turned(block.attention.combine, other.attn.c_proj)
        put_turned(block.feedforward.expand, other.mlp.c_fc)
        put_turned(block.feedforward.contract, other.mlp.c_proj)
    return model


@pytest.mark.parametrize("activation", OUR_ACTIVATION)
@pytest.mark.parametrize("tied", [True, False])
def test_same_logits(activation: str, tied: bool) -> None:
    theirs = gpt2(activation, tied=tied, epsilon=1e-3 if tied else 1e-5)
    ours = ours_from(theirs)
    texts = torch.randint(4, WORDS, (5, 20))
    text = Ragged.of(texts.tolist())
    with torch.no_grad():
        found = ours(Batch(text, text))
        logits = found.project(found.hidden).view(5, 20, WORDS)
        torch.testing.assert_close(logits, theirs(texts).logits, rtol=1e-4, atol=1e-4)


def test_same_text() -> None:
    theirs = gpt2()
    ours = ours_from(theirs)
    prompt = [7, 9, 23]
    forbidden = [[mark] for mark in (0, 1, 2)]  # as our rules have it
    with torch.no_grad():
        wanted = theirs.generate(
            torch.tensor([[2, *prompt]]),
            max_length=20,
            do_sample=False,
            bad_words_ids=forbidden,
            attention_mask=torch.ones(1, 4, dtype=torch.long),
        )[0].tolist()
    config = SearchConfig(beam_size=1, max_ratio=1.0, max_extra=25)
    found = search(ours, Ragged.of([[*prompt, 3]]), config, prefixes=[prompt])[0][0].tokens
    wanted = wanted[1:]
    wanted = wanted[: wanted.index(3)] if 3 in wanted else wanted
    assert found[: len(wanted)] == wanted

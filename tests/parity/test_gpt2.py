"""Parity with HuggingFace's GPT-2: equal weights give equal logits and texts."""

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

VOCABULARY_SIZE = 50
OUR_ACTIVATION = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}


def gpt2(activation: str = "gelu_new", *, tied: bool = True, epsilon: float = 1e-5) -> Any:
    """A small GPT-2 with random weights, in evaluation mode."""
    torch.manual_seed(4)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY_SIZE,
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
def convert(theirs: Any) -> Causal:
    """Our model with the same weights."""
    config = theirs.config
    shape = CausalConfig(
        d_model=config.n_embd,
        num_layers=config.n_layer,
        num_heads=config.n_head,
        ffn_dim=config.n_inner,
        activation=OUR_ACTIVATION[config.activation_function],  # type: ignore[arg-type]
        norm_order="pre",
        norm_eps=config.layer_norm_epsilon,
        positional_encoding="learned",
        max_positions=config.n_positions,
        scale_embedding=False,
        dropout=0.0,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
    )
    model = Causal(shape, Vocabulary(VOCABULARY_SIZE, VOCABULARY_SIZE)).eval()
    their_model = theirs.transformer

    def copy_layer(our_layer: Any, weight: Tensor, bias: Tensor) -> None:
        our_layer.weight.copy_(weight)
        our_layer.bias.copy_(bias)

    def copy_transposed(our_layer: Any, their_layer: Any) -> None:
        copy_layer(our_layer, their_layer.weight.t(), their_layer.bias)

    assert isinstance(model.embedding.positions, nn.Module)
    model.embedding.table.weight.copy_(their_model.wte.weight)
    model.embedding.positions.table.weight.copy_(their_model.wpe.weight)  # type: ignore[union-attr, operator]
    model.projection.weight.copy_(theirs.lm_head.weight)
    copy_layer(model.encoder.norm, their_model.ln_f.weight, their_model.ln_f.bias)
    for our_layer, their_layer in zip(model.encoder.blocks, their_model.h, strict=True):
        block: Any = our_layer
        copy_layer(block.attention_residual.norm, their_layer.ln_1.weight, their_layer.ln_1.bias)
        copy_layer(block.feedforward_residual.norm, their_layer.ln_2.weight, their_layer.ln_2.bias)
        copy_transposed(block.attention.project, their_layer.attn.c_attn)
        copy_transposed(block.attention.combine, their_layer.attn.c_proj)
        copy_transposed(block.feedforward.expand, their_layer.mlp.c_fc)
        copy_transposed(block.feedforward.contract, their_layer.mlp.c_proj)
    return model


@pytest.mark.parametrize("activation", OUR_ACTIVATION)
@pytest.mark.parametrize("tied", [True, False])
def test_same_logits(activation: str, tied: bool) -> None:
    theirs = gpt2(activation, tied=tied, epsilon=1e-3 if tied else 1e-5)
    ours = convert(theirs)
    texts = torch.randint(4, VOCABULARY_SIZE, (5, 20))
    text = Ragged.of(texts.tolist())
    with torch.no_grad():
        predictions = ours(Batch(text, text))
        logits = predictions.project(predictions.hidden).view(5, 20, VOCABULARY_SIZE)
        torch.testing.assert_close(logits, theirs(texts).logits, rtol=1e-4, atol=1e-4)


def test_same_text() -> None:
    theirs = gpt2()
    ours = convert(theirs)
    prompt = [7, 9, 23]
    forbidden = [[token] for token in (0, 1, 2)]  # special tokens
    with torch.no_grad():
        expected = theirs.generate(
            torch.tensor([[2, *prompt]]),
            max_length=20,
            do_sample=False,
            bad_words_ids=forbidden,
            attention_mask=torch.ones(1, 4, dtype=torch.long),
        )[0].tolist()
    config = SearchConfig(beam_size=1, max_ratio=1.0, max_extra=25)
    actual = search(ours, Ragged.of([[*prompt, 3]]), config, prefixes=[prompt])[0][0].tokens
    expected = expected[1:]
    expected = expected[: expected.index(3)] if 3 in expected else expected
    assert actual[: len(expected)] == expected

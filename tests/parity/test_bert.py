"""Parity with HuggingFace's BERT and RoBERTa: equal weights give equal logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.models.masked import Masked, MaskedConfig
from regard.models.protocol import Vocabulary

transformers = pytest.importorskip("transformers")

VOCABULARY_SIZE = 50
OUR_ACTIVATION = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "attn_implementation": "eager",
}


def with_noise(model: Any) -> Any:
    """The model with noise added to all weights, including biases and norms."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def copy_layer(our_layer: Any, their_layer: Any) -> None:
    our_layer.weight.copy_(their_layer.weight)
    our_layer.bias.copy_(their_layer.bias)


@torch.no_grad()
def convert(theirs: Any, body: Any, head: Any, *, offset: int, next_sentence: Any = None) -> Masked:
    """Our model with the same weights; head has dense, norm, bias and weight."""
    config = theirs.config
    shape = MaskedConfig(
        d_model=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        ffn_dim=config.intermediate_size,
        activation=OUR_ACTIVATION[config.hidden_act],  # type: ignore[arg-type]
        head_activation=head["activation"],
        norm_eps=config.layer_norm_eps,
        positional_encoding="learned",
        max_positions=config.max_position_embeddings - offset,
        scale_embedding=False,
        num_segments=config.type_vocab_size,
        next_sentence=next_sentence is not None,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
        dropout=0.0,
    )
    model: Any = Masked(shape, Vocabulary(VOCABULARY_SIZE, VOCABULARY_SIZE)).eval()
    their_embeddings = body.embeddings
    model.embedding.table.weight.copy_(their_embeddings.word_embeddings.weight)
    model.embedding.positions.table.weight.copy_(
        their_embeddings.position_embeddings.weight[offset:]
    )
    model.embedding.segments.weight.copy_(their_embeddings.token_type_embeddings.weight)
    copy_layer(model.embedding.norm, their_embeddings.LayerNorm)
    for our_block, their_block in zip(model.encoder.blocks, body.encoder.layer, strict=True):
        parts = [getattr(their_block.attention.self, name) for name in ("query", "key", "value")]
        our_block.attention.project.weight.copy_(torch.cat([part.weight for part in parts]))
        our_block.attention.project.bias.copy_(torch.cat([part.bias for part in parts]))
        copy_layer(our_block.attention.combine, their_block.attention.output.dense)
        copy_layer(our_block.attention_residual.norm, their_block.attention.output.LayerNorm)
        copy_layer(our_block.feedforward.expand, their_block.intermediate.dense)
        copy_layer(our_block.feedforward.contract, their_block.output.dense)
        copy_layer(our_block.feedforward_residual.norm, their_block.output.LayerNorm)
    copy_layer(model.head.dense, head["dense"])
    copy_layer(model.head.norm, head["norm"])
    model.projection.weight.copy_(head["weight"])
    model.projection.bias.copy_(head["bias"])
    if next_sentence is not None:
        copy_layer(model.next_sentence.pooler, body.pooler.dense)
        copy_layer(model.next_sentence.classify, next_sentence)
    assert isinstance(model, Masked)
    return model


def texts() -> tuple[Tensor, Ragged]:
    """Random tokens without HuggingFace's padding, which would shift RoBERTa's positions."""
    torch.manual_seed(6)
    rows = torch.randint(4, VOCABULARY_SIZE, (4, 17))
    return rows, Ragged.of(rows.tolist())


@pytest.mark.parametrize("activation", OUR_ACTIVATION)
@pytest.mark.parametrize("tied", [True, False])
def test_bert(activation: str, tied: bool) -> None:
    config = transformers.BertConfig(
        **SIZES, hidden_act=activation, max_position_embeddings=20, tie_word_embeddings=tied
    )
    theirs = with_noise(transformers.BertForPreTraining(config))
    predictions = theirs.cls.predictions
    head = {
        "dense": predictions.transform.dense,
        "norm": predictions.transform.LayerNorm,
        "weight": predictions.decoder.weight,
        "bias": predictions.decoder.bias,
        "activation": OUR_ACTIVATION[activation],
    }
    ours = convert(theirs, theirs.bert, head, offset=0, next_sentence=theirs.cls.seq_relationship)
    rows, text = texts()
    segments = (torch.arange(17) > 8).long().expand(4, -1)
    with torch.no_grad():
        expected = theirs(rows, token_type_ids=segments)
        actual = ours.logits(text, segments.flatten())
        first_states = ours.hidden_states(text, segments.flatten()).view(4, 17, -1)[:, 0]
        assert ours.next_sentence is not None
        next_sentence_logits = ours.next_sentence(first_states)
    torch.testing.assert_close(
        actual.view(4, 17, VOCABULARY_SIZE), expected.prediction_logits, rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(
        next_sentence_logits, expected.seq_relationship_logits, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_roberta(activation: str) -> None:
    config = transformers.RobertaConfig(
        **SIZES,
        hidden_act=activation,
        max_position_embeddings=22,
        type_vocab_size=1,
        pad_token_id=1,
    )
    theirs = with_noise(transformers.RobertaForMaskedLM(config))
    head = {
        "dense": theirs.lm_head.dense,
        "norm": theirs.lm_head.layer_norm,
        "weight": theirs.lm_head.decoder.weight,
        "bias": theirs.lm_head.decoder.bias,
        "activation": "gelu",  # whatever the blocks have
    }
    ours = convert(theirs, theirs.roberta, head, offset=2)  # its positions begin at 2
    rows, text = texts()
    with torch.no_grad():
        actual, expected = ours.logits(text), theirs(rows).logits
    torch.testing.assert_close(actual.view(4, 17, VOCABULARY_SIZE), expected, rtol=1e-4, atol=1e-4)

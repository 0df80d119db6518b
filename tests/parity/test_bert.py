"""Ours and HuggingFace's BERT and RoBERTa from equal weights: equal logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.models.masked import Masked, MaskedConfig
from regard.models.protocol import Vocabulary

transformers = pytest.importorskip("transformers")

WORDS = 50
OUR_ACTIVATION = {"gelu_new": "gelu_tanh", "gelu": "gelu", "relu": "relu", "silu": "silu"}
SIZES: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "attn_implementation": "eager",
}


def shaken(model: Any) -> Any:
    """With weights that are far from their beginning, biases and norms too."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def put(own: Any, other: Any) -> None:
    own.weight.copy_(other.weight)
    own.bias.copy_(other.bias)


@torch.no_grad()
def ours_from(
    theirs: Any, body: Any, head: Any, *, offset: int, next_sentence: Any = None
) -> Masked:
    """The same model as ours; head has dense, norm, bias and weight."""
    config = theirs.config
    shape = MaskedConfig(
        width=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        feedforward_width=config.intermediate_size,
        activation=OUR_ACTIVATION[config.hidden_act],  # type: ignore[arg-type]
        head_activation=head["activation"],
        norm_epsilon=config.layer_norm_eps,
        positions="learned",
        max_positions=config.max_position_embeddings - offset,
        scale_embedding=False,
        segments=config.type_vocab_size,
        next_sentence=next_sentence is not None,
        tied_embeddings="all" if config.tie_word_embeddings else "none",
        dropout=0.0,
    )
    model: Any = Masked(shape, Vocabulary(WORDS, WORDS)).eval()
    there = body.embeddings
    model.embedding.table.weight.copy_(there.word_embeddings.weight)
    model.embedding.positions.table.weight.copy_(there.position_embeddings.weight[offset:])
    model.embedding.segments.weight.copy_(there.token_type_embeddings.weight)
    put(model.embedding.norm, there.LayerNorm)
    for own, other in zip(model.encoder.blocks, body.encoder.layer, strict=True):
        parts = [getattr(other.attention.self, name) for name in ("query", "key", "value")]
        own.attention.project.weight.copy_(torch.cat([part.weight for part in parts]))
        own.attention.project.bias.copy_(torch.cat([part.bias for part in parts]))
        put(own.attention.combine, other.attention.output.dense)
        put(own.attention_residual.norm, other.attention.output.LayerNorm)
        put(own.feedforward.expand, other.intermediate.dense)
        put(own.feedforward.contract, other.output.dense)
        put(own.feedforward_residual.norm, other.output.LayerNorm)
    put(model.head.dense, head["dense"])
    put(model.head.norm, head["norm"])
    model.projection.weight.copy_(head["weight"])
    model.projection.bias.copy_(head["bias"])
    if next_sentence is not None:
        put(model.next_sentence.pooler, body.pooler.dense)
        put(model.next_sentence.classify, next_sentence)
    assert isinstance(model, Masked)
    return model


def texts() -> tuple[Tensor, Ragged]:
    """Rows of tokens, none of them HuggingFace's padding, which moves RoBERTa's positions."""
    torch.manual_seed(6)
    rows = torch.randint(4, WORDS, (4, 17))
    return rows, Ragged.of(rows.tolist())


@pytest.mark.parametrize("activation", OUR_ACTIVATION)
@pytest.mark.parametrize("tied", [True, False])
def test_bert(activation: str, tied: bool) -> None:
    config = transformers.BertConfig(
        **SIZES, hidden_act=activation, max_position_embeddings=20, tie_word_embeddings=tied
    )
    theirs = shaken(transformers.BertForPreTraining(config))
    predictions = theirs.cls.predictions
    head = {
        "dense": predictions.transform.dense,
        "norm": predictions.transform.LayerNorm,
        "weight": predictions.decoder.weight,
        "bias": predictions.decoder.bias,
        "activation": OUR_ACTIVATION[activation],
    }
    ours = ours_from(theirs, theirs.bert, head, offset=0, next_sentence=theirs.cls.seq_relationship)
    rows, text = texts()
    segments = (torch.arange(17) > 8).long().expand(4, -1)
    with torch.no_grad():
        wanted = theirs(rows, token_type_ids=segments)
        found = ours.logits(text, segments.flatten())
        first = ours.read(text, segments.flatten()).view(4, 17, -1)[:, 0]
        assert ours.next_sentence is not None
        follows = ours.next_sentence(first)
    torch.testing.assert_close(
        found.view(4, 17, WORDS), wanted.prediction_logits, rtol=1e-4, atol=1e-4
    )
    torch.testing.assert_close(follows, wanted.seq_relationship_logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_roberta(activation: str) -> None:
    config = transformers.RobertaConfig(
        **SIZES,
        hidden_act=activation,
        max_position_embeddings=22,
        type_vocab_size=1,
        pad_token_id=1,
    )
    theirs = shaken(transformers.RobertaForMaskedLM(config))
    head = {
        "dense": theirs.lm_head.dense,
        "norm": theirs.lm_head.layer_norm,
        "weight": theirs.lm_head.decoder.weight,
        "bias": theirs.lm_head.decoder.bias,
        "activation": "gelu",  # whatever the blocks have
    }
    ours = ours_from(theirs, theirs.roberta, head, offset=2)  # its positions begin at 2
    rows, text = texts()
    with torch.no_grad():
        found, wanted = ours.logits(text), theirs(rows).logits
    torch.testing.assert_close(found.view(4, 17, WORDS), wanted, rtol=1e-4, atol=1e-4)

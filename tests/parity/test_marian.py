"""Parity with HuggingFace's Marian: equal weights give equal logits and translations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
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
from regard.decoding.beam import beam_search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.greedy import greedy_search
from regard.layers.feedforward import Activation
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")

ENCODER_LAYERS, DECODER_LAYERS = 2, 3
SOURCES = random_sentences([6, 0, 11, 3, 8, 1, 14, 5], 60, seed=1)
TARGETS = random_sentences([4, 9, 0, 5, 2, 13, 7, 1], 50, seed=2)
LIMIT = 30  # maximum length of a translation
BEAMS = 4
SEEDS = [0, 1, 6, 7]  # their searches end early, late and at the limit

OUR_ACTIVATION: dict[str, Activation] = {"relu": "relu", "gelu": "gelu", "swish": "silu"}
OUR_TIES: dict[tuple[bool, bool], Literal["all", "decoder", "none"]] = {
    # share_encoder_decoder_embeddings, tie_word_embeddings
    (True, True): "all",
    (False, True): "decoder",
    (False, False): "none",
}

ENCODER_BLOCK = {
    "attention.project": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attention.combine": ["self_attn.out_proj"],
    "attention_residual.norm": ["self_attn_layer_norm"],
    "feedforward.expand": ["fc1"],
    "feedforward.contract": ["fc2"],
    "feedforward_residual.norm": ["final_layer_norm"],
}
DECODER_BLOCK = {
    **ENCODER_BLOCK,
    "cross.query": ["encoder_attn.q_proj"],
    "cross.memory": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
    "cross.combine": ["encoder_attn.out_proj"],
    "cross_residual.norm": ["encoder_attn_layer_norm"],
}
LAYERS = {
    "source_embedding.table": ["model.encoder.embed_tokens"],
    "target_embedding.table": ["model.decoder.embed_tokens"],
    **for_each_block("encoder.blocks", "model.encoder.layers", ENCODER_LAYERS, ENCODER_BLOCK),
    **for_each_block("decoder.blocks", "model.decoder.layers", DECODER_LAYERS, DECODER_BLOCK),
    "projection": ["lm_head"],
}


def marian(
    *,
    activation: str = "swish",
    shared: bool = True,
    tied: bool = True,
    scale: bool = True,
    noise: float = 0.2,
    seed: int = 3,
) -> Any:
    """A MarianMTModel with random weights, and our ids of special tokens."""
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=60,
            decoder_vocab_size=60 if shared else 50,
            d_model=32,
            encoder_layers=ENCODER_LAYERS,
            decoder_layers=DECODER_LAYERS,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            activation_function=activation,
            dropout=0.0,
            scale_embedding=scale,
            share_encoder_decoder_embeddings=shared,
            tie_word_embeddings=tied,
            max_position_embeddings=64,
            pad_token_id=SPECIAL.pad,
            decoder_start_token_id=SPECIAL.pad,
            eos_token_id=SPECIAL.eos,
            forced_eos_token_id=None,
        )
    )
    shake(model, noise)
    model.final_logits_bias.normal_()
    return model.eval()


def convert(theirs: Any) -> Transformer:
    """Our Transformer of the same shape, with the same weights."""
    shape = theirs.config
    config = TransformerConfig(
        num_encoder_layers=shape.encoder_layers,
        num_decoder_layers=shape.decoder_layers,
        d_model=shape.d_model,
        num_heads=shape.encoder_attention_heads,
        ffn_dim=shape.encoder_ffn_dim,
        activation=OUR_ACTIVATION[shape.activation_function],
        dropout=shape.dropout,
        norm_order="post",
        tied_embeddings=OUR_TIES[shape.share_encoder_decoder_embeddings, shape.tie_word_embeddings],
        sinusoid_layout="halves",
        scale_embedding=shape.scale_embedding,
        output_bias=True,
        decoder_start_token="pad",
    )
    ours = Transformer(config, Vocabulary(shape.vocab_size, shape.decoder_vocab_size))
    weights = theirs.state_dict()
    weights["lm_head.bias"] = weights["final_logits_bias"].squeeze(0)
    ours.load_state_dict(under_our_names(weights, LAYERS))
    return ours.eval()


@torch.no_grad()
def their_logits(theirs: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
    """Logits of all positions but padding. (N, V)"""
    inputs, mask = padded([torch.tensor([SPECIAL.pad, *target]) for target in targets])
    logits: Tensor = theirs(**their_source(sources), decoder_input_ids=inputs).logits
    return logits[mask]


def their_source(sources: Sequence[list[int]]) -> dict[str, Tensor]:
    ids, mask = padded([torch.tensor([*source, SPECIAL.eos]) for source in sources])
    return {"input_ids": ids, "attention_mask": mask.long()}


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(("shared", "tied"), OUR_TIES)
@pytest.mark.parametrize("activation", OUR_ACTIVATION)
def test_same_logits(activation: str, shared: bool, tied: bool, scale: bool) -> None:
    theirs = marian(activation=activation, shared=shared, tied=tied, scale=scale)
    ours = convert(theirs)
    predictions = ours(Batch(with_eos(SOURCES), with_eos(TARGETS)))
    assert_close(
        predictions.project(predictions.hidden),
        their_logits(theirs, SOURCES, TARGETS),
        atol=1e-5,
        rtol=0,
    )


def sequential_marian(seed: int) -> Any:
    """A model that tends to predict the next token id; random models repeat one token."""
    model = marian(shared=False, tied=False, noise=0.1, seed=seed)
    words = model.model.decoder.embed_tokens.weight.data
    words *= 4
    model.lm_head.weight.data.copy_(words.roll(1, 0))
    model.final_logits_bias[0, SPECIAL.eos] = 4
    return model


def generate(theirs: Any, **settings: Any) -> Any:
    """The results of HuggingFace's search under our constraints."""

    def allowed(sentence: int, inputs: Tensor) -> list[int]:
        words = range(SPECIAL.eos, theirs.config.decoder_vocab_size)  # no other special tokens
        return [SPECIAL.eos] if len(inputs) == LIMIT else [*words]

    return theirs.generate(
        **their_source(SOURCES),
        max_new_tokens=LIMIT,
        do_sample=False,
        prefix_allowed_tokens_fn=allowed,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )


def their_ids(generated: Tensor) -> list[list[int]]:
    """Token ids without BOS, EOS and what follows EOS."""
    return [row[: row.index(SPECIAL.eos)] for row in generated[:, 1:].tolist()]


def make_constraints() -> DecodingConstraints:
    return DecodingConstraints.of([LIMIT] * len(SOURCES), None, torch.device("cpu"))


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_search_matches_marian(seed: int) -> None:
    theirs = sequential_marian(seed)
    results = greedy_search(convert(theirs), with_eos(SOURCES), make_constraints())
    generated = generate(theirs, num_beams=1)
    assert [h.tokens for h in results] == their_ids(generated.sequences)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("stops_early", "length_penalty"),
    # Without a length penalty `max_finished` stops as CTranslate2 does, not as HuggingFace does.
    [(False, 0.0), (False, 0.6), (False, 1.0), (True, 0.6), (True, 1.0)],
)
def test_beam_search_matches_marian(stops_early: bool, length_penalty: float, seed: int) -> None:
    theirs = sequential_marian(seed)
    results = beam_search(
        convert(theirs),
        with_eos(SOURCES),
        make_constraints(),
        beam_size=BEAMS,
        length_penalty=length_penalty,
        max_finished=BEAMS if stops_early else None,
    )
    generated = generate(
        theirs,
        num_beams=BEAMS,
        num_return_sequences=BEAMS,
        early_stopping=stops_early,
        length_penalty=length_penalty,
    )
    best = [hypothesis for hypotheses in results for hypothesis in hypotheses[:BEAMS]]
    assert [h.tokens for h in best] == their_ids(generated.sequences)
    assert_close(
        torch.tensor([h.score for h in best]), generated.sequences_scores, atol=1e-5, rtol=2e-6
    )


def test_log_probabilities_match_marian() -> None:
    theirs = sequential_marian(SEEDS[0])
    results = beam_search(convert(theirs), with_eos(SOURCES), make_constraints(), beam_size=BEAMS)
    for source, hypotheses in zip(SOURCES, results, strict=True):
        for hypothesis in hypotheses:
            log_probs = their_logits(theirs, [source], [hypothesis.tokens]).log_softmax(-1)
            ids = torch.tensor([*hypothesis.tokens, SPECIAL.eos])
            expected = log_probs.gather(1, ids[:, None]).sum().item()
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)

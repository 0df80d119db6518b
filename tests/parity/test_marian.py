"""From equal weights, HuggingFace's Marian computes, and writes, what we do."""

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
from regard.data.pairs import with_ends
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy_search
from regard.decoding.rules import Rules
from regard.layers.feedforward import Activation
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.text.special import SPECIAL

transformers = pytest.importorskip("transformers")

ENCODER_LAYERS, DECODER_LAYERS = 2, 3
SOURCES = random_sentences([6, 0, 11, 3, 8, 1, 14, 5], 60, seed=1)
TARGETS = random_sentences([4, 9, 0, 5, 2, 13, 7, 1], 50, seed=2)
LIMIT = 30  # tokens that a search may write
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
    """A MarianMTModel with random weights, and with our ids for its marks."""
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
            eos_token_id=SPECIAL.end,
            forced_eos_token_id=None,
        )
    )
    shake(model, noise)
    model.final_logits_bias.normal_()
    return model.eval()


def ours_like(theirs: Any) -> Transformer:
    """Our Transformer of the same shape, with the same weights."""
    shape = theirs.config
    config = TransformerConfig(
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        width=shape.d_model,
        heads=shape.encoder_attention_heads,
        feedforward_width=shape.encoder_ffn_dim,
        activation=OUR_ACTIVATION[shape.activation_function],
        dropout=shape.dropout,
        norm_order="post",
        tied_embeddings=OUR_TIES[shape.share_encoder_decoder_embeddings, shape.tie_word_embeddings],
        sinusoid_layout="halves",
        scale_embedding=shape.scale_embedding,
        output_bias=True,
        start_token="pad",
    )
    ours = Transformer(config, Vocabulary(shape.vocab_size, shape.decoder_vocab_size))
    weights = theirs.state_dict()
    weights["lm_head.bias"] = weights["final_logits_bias"].squeeze(0)
    ours.load_state_dict(under_our_names(weights, LAYERS))
    return ours.eval()


@torch.no_grad()
def their_logits(theirs: Any, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Tensor:
    """Of the real positions. (N, V)"""
    read, real = padded([torch.tensor([SPECIAL.pad, *target]) for target in targets])
    logits: Tensor = theirs(**their_source(sources), decoder_input_ids=read).logits
    return logits[real]


def their_source(sources: Sequence[list[int]]) -> dict[str, Tensor]:
    ids, real = padded([torch.tensor([*source, SPECIAL.end]) for source in sources])
    return {"input_ids": ids, "attention_mask": real.long()}


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(("shared", "tied"), OUR_TIES)
@pytest.mark.parametrize("activation", OUR_ACTIVATION)
def test_same_logits(activation: str, shared: bool, tied: bool, scale: bool) -> None:
    theirs = marian(activation=activation, shared=shared, tied=tied, scale=scale)
    ours = ours_like(theirs)
    predictions = ours(Batch(with_ends(SOURCES), with_ends(TARGETS)))
    assert_close(
        predictions.project(predictions.hidden),
        their_logits(theirs, SOURCES, TARGETS),
        atol=1e-5,
        rtol=0,
    )


def talkative_marian(seed: int) -> Any:
    """Each word calls for the next one of the vocabulary; other random models say one for ever."""
    model = marian(shared=False, tied=False, noise=0.1, seed=seed)
    words = model.model.decoder.embed_tokens.weight.data
    words *= 4
    model.lm_head.weight.data.copy_(words.roll(1, 0))
    model.final_logits_bias[0, SPECIAL.end] = 4
    return model


def they_write(theirs: Any, **settings: Any) -> Any:
    """What their search finds under our rules."""

    def allowed(sentence: int, read: Tensor) -> list[int]:
        words = range(SPECIAL.end, theirs.config.decoder_vocab_size)  # no other marks
        return [SPECIAL.end] if len(read) == LIMIT else [*words]

    return theirs.generate(
        **their_source(SOURCES),
        max_new_tokens=LIMIT,
        do_sample=False,
        prefix_allowed_tokens_fn=allowed,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )


def their_ids(written: Tensor) -> list[list[int]]:
    """Without the start mark, the end mark and what follows."""
    return [row[: row.index(SPECIAL.end)] for row in written[:, 1:].tolist()]


def our_rules() -> Rules:
    return Rules.of([LIMIT] * len(SOURCES), None, torch.device("cpu"))


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_search_writes_the_same(seed: int) -> None:
    theirs = talkative_marian(seed)
    found = greedy_search(ours_like(theirs), with_ends(SOURCES), our_rules())
    written = they_write(theirs, num_beams=1)
    assert [h.tokens for h in found] == their_ids(written.sequences)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("stops_early", "length_penalty"),
    # Without a length penalty `enough` stops as CTranslate2 does, which is another rule.
    [(False, 0.0), (False, 0.6), (False, 1.0), (True, 0.6), (True, 1.0)],
)
def test_beam_search_writes_the_same(stops_early: bool, length_penalty: float, seed: int) -> None:
    theirs = talkative_marian(seed)
    found = beam_search(
        ours_like(theirs),
        with_ends(SOURCES),
        our_rules(),
        beam_size=BEAMS,
        length_penalty=length_penalty,
        enough=BEAMS if stops_early else None,
    )
    written = they_write(
        theirs,
        num_beams=BEAMS,
        num_return_sequences=BEAMS,
        early_stopping=stops_early,
        length_penalty=length_penalty,
    )
    best = [hypothesis for hypotheses in found for hypothesis in hypotheses[:BEAMS]]
    assert [h.tokens for h in best] == their_ids(written.sequences)
    assert_close(
        torch.tensor([h.score for h in best]), written.sequences_scores, atol=1e-5, rtol=2e-6
    )


def test_a_hypothesis_has_the_log_probability_that_they_give_it() -> None:
    theirs = talkative_marian(SEEDS[0])
    found = beam_search(ours_like(theirs), with_ends(SOURCES), our_rules(), beam_size=BEAMS)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for hypothesis in hypotheses:
            log_probs = their_logits(theirs, [source], [hypothesis.tokens]).log_softmax(-1)
            ids = torch.tensor([*hypothesis.tokens, SPECIAL.end])
            expected = log_probs.gather(1, ids[:, None]).sum().item()
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-4)

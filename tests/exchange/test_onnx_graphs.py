"""ONNX graphs, run by PyTorch, match the model for all supported variants."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.pairs import with_eos
from regard.exchange.onnx import export_problems
from regard.exchange.onnx_graphs import DecoderGraph, EncoderGraph
from regard.models.transformer import Transformer, TransformerConfig
from toys import TRANSFORMER_VARIANTS, sentences, small_transformer

MORE_VARIANTS: dict[str, dict[str, Any]] = {
    "Marian's sinusoids": {"sinusoid_layout": "halves"},
    "an odd width": {"d_model": 15, "num_heads": 3, "norm_order": "pre"},
    "gelu": {"activation": "gelu", "ffn_type": "gated"},
    "plain embeddings": {
        "scale_embedding": False,
        "decoder_start_token": "pad",
        "final_norm": True,
    },
    "two tables": {"tied_embeddings": "decoder"},
}
SUPPORTED = {
    name: variant
    for name, variant in {**TRANSFORMER_VARIANTS, **MORE_VARIANTS}.items()
    if variant.get("ffn_type") != "convolution"
}


@torch.inference_mode()
def assert_equal_steps(model: Transformer, steps: int = 4) -> None:
    """Compare the graphs with the model's steps, with two beams."""
    source, remaining = with_eos(sentences(5)), torch.tensor([3, 0])
    lengths = source.lengths.lengths
    cross = EncoderGraph(model)(source.lengths.pad(source.tokens), lengths)
    past = [part[:, None, :, :0].repeat(1, 2, 1, 1, 1) for part in cross]
    state, tokens = model.start(source, beams=2), model.first_tokens(5, 2)
    for step in range(steps):
        state.reserve(step + 1, exact=True)
        expected = model.step(tokens, state)
        logits, *past = DecoderGraph(model)(tokens, lengths, cross, past)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
        tokens = expected[:, 0].topk(2).indices
        if step == 1:  # some sentences are finished
            state, tokens, lengths = state.select(remaining), tokens[remaining], lengths[remaining]
            cross, past = ([part[remaining] for part in parts] for parts in (cross, past))


@pytest.mark.parametrize("variant", SUPPORTED)
def test_graphs_match_the_model(variant: str) -> None:
    assert not list(export_problems(small_transformer(**SUPPORTED[variant]).config))
    assert_equal_steps(small_transformer(3, **SUPPORTED[variant]))


def test_unsupported_settings_are_reported() -> None:
    [problem] = export_problems(TransformerConfig(ffn_type="convolution"))
    assert "model.ffn_type is convolution" in problem
    assert "model.ffn_type=linear" in problem

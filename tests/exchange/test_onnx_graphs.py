"""What is handed to ONNX computes what the model computes, for every form that can be written."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.pairs import with_ends
from regard.exchange.onnx import problems
from regard.exchange.onnx_graphs import DecoderGraph, EncoderGraph
from regard.models.transformer import Transformer, TransformerConfig
from toys import FORMS, sentences, small_model

MORE: dict[str, dict[str, Any]] = {
    "Marian's sinusoids": {"sinusoid_layout": "halves"},
    "an odd width": {"width": 15, "heads": 3, "norm_order": "pre"},
    "gelu": {"activation": "gelu", "feedforward": "gated"},
    "plain embeddings": {"scale_embedding": False, "start_token": "pad", "final_norm": True},
    "two tables": {"tied_embeddings": "decoder"},
}
WRITTEN = {
    name: form
    for name, form in {**FORMS, **MORE}.items()
    if form.get("feedforward") != "convolution"
}


@torch.inference_mode()
def assert_equal_steps(model: Transformer, steps: int = 4) -> None:
    """The graphs, run by PyTorch, beside the model's own steps with two beams."""
    source, stay = with_ends(sentences(5)), torch.tensor([3, 0])
    lengths = source.lengths.lengths
    memory = EncoderGraph(model)(source.lengths.pad(source.tokens), lengths)
    past = [part[:, None, :, :0].repeat(1, 2, 1, 1, 1) for part in memory]
    state, tokens = model.start(source, beams=2), model.first_tokens(5, 2)
    for step in range(steps):
        state.reach(step + 1, exact=True)
        expected = model.step(tokens, state)
        logits, *past = DecoderGraph(model)(tokens, lengths, memory, past)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
        tokens = expected[:, 0].topk(2).indices
        if step == 1:  # some sentences leave
            state, tokens, lengths = state.select(stay), tokens[stay], lengths[stay]
            memory, past = ([part[stay] for part in parts] for parts in (memory, past))


@pytest.mark.parametrize("form", WRITTEN)
def test_graphs_are_the_model(form: str) -> None:
    assert not list(problems(small_model(**WRITTEN[form]).config))
    assert_equal_steps(small_model(3, **WRITTEN[form]))


def test_what_cannot_be_written_is_named() -> None:
    [problem] = problems(TransformerConfig(feedforward="convolution"))
    assert "model.feedforward is convolution" in problem
    assert "model.feedforward=linear" in problem

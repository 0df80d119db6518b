"""Causal language model: causality, independence of the batch, and cached decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.models.causal import Causal
from regard.models.language import CausalLanguageModel
from toys import VOCABULARY_SIZE, random_model, sentences

VARIANTS: dict[str, dict[str, Any]] = {
    "GPT-2": {
        "norm_order": "pre",
        "activation": "gelu_tanh",
        "positional_encoding": "learned",
        "scale_embedding": False,
    },
    "post-norm": {},
    "rotary, gated, RMS": {"positional_encoding": "rotary", "ffn_type": "gated", "norm": "rms"},
    "relative": {"positional_encoding": "relative"},
    "convolutions": {"ffn_type": "convolution", "norm_order": "pre"},
    "embedding norm": {"embedding_norm": True, "norm_eps": 1e-3, "output_bias": True},
    "untied": {"tied_embeddings": "none", "positional_encoding": "none"},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_model(variant: str) -> Causal:
    model = random_model(1, kind="causal", **VARIANTS[variant])
    assert isinstance(model, Causal)
    return model


def logits(model: Causal, *texts: list[int]) -> torch.Tensor:
    """The logits of all tokens of a batch of texts."""
    text = Ragged.of(texts)
    with torch.no_grad():
        predictions = model(Batch(text, text))
    return predictions.project(predictions.hidden)


@every_variant
def test_model_is_causal(variant: str) -> None:
    model = make_model(variant)
    text = sentences(1, seed=3, longest=9)[0] + [5, 6, 7, 8]
    before = logits(model, text)
    for position in range(1, len(text)):
        changed = [*text[:position], *[(token + 1) % VOCABULARY_SIZE for token in text[position:]]]
        after = logits(model, changed)
        torch.testing.assert_close(after[:position], before[:position])
        assert not torch.allclose(after[position:], before[position:])


@every_variant
def test_results_do_not_depend_on_the_batch(variant: str) -> None:
    model = make_model(variant)
    texts = sentences(6, seed=4)
    alone = torch.cat([logits(model, text) for text in texts])
    torch.testing.assert_close(logits(model, *texts), alone, rtol=1e-4, atol=1e-5)


@every_variant
def test_steps_match_the_full_pass(variant: str) -> None:
    model = make_model(variant)
    texts = [[2, *text[:5], *[9] * (5 - len(text[:5]))] for text in sentences(4, seed=5)]
    rows = torch.tensor(texts)
    state = model.start(Ragged(rows.flatten(), Lengths.of([6] * 4)), capacity=3)
    stepped = []
    with torch.no_grad():
        for position in range(6):
            state.reserve(position + 1, exact=True)
            stepped.append(model.step(rows[:, position : position + 1], state))
    actual = torch.cat(stepped, 1).flatten(0, 1)
    torch.testing.assert_close(actual, logits(model, *texts), rtol=1e-4, atol=1e-5)


@every_variant
@pytest.mark.parametrize("beam_size", [1, 3])
def test_generation_does_not_depend_on_the_batch(variant: str, beam_size: int) -> None:
    model = make_model(variant)
    config = SearchConfig(beam_size=beam_size, max_ratio=1.0, max_extra=8)
    prompts = sentences(5, seed=6)

    def generate(batch: list[list[int]]) -> list[list[int]]:
        source = Ragged.of([[*prompt, 3] for prompt in batch])
        return [
            hypotheses[0].tokens for hypotheses in search(model, source, config, prefixes=batch)
        ]

    together = generate(prompts)
    assert together == [generate([prompt])[0] for prompt in prompts]
    for prompt, text in zip(prompts, together, strict=True):
        assert text[: len(prompt)] == prompt


@every_variant
@pytest.mark.parametrize("positions", [0, 1, 7])
def test_prefill_matches_single_steps(variant: str, positions: int) -> None:
    model, beams = make_model(variant), 3
    tokens = torch.randint(
        4, VOCABULARY_SIZE, (2, positions), generator=torch.Generator().manual_seed(0)
    )
    source = Ragged(tokens.flatten(), Lengths.of([positions] * 2))
    prefilled, stepped = (model.start(source, beams=beams, capacity=4) for _ in range(2))
    last = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.inference_mode():
        model.prefill(tokens, prefilled)
        CausalLanguageModel.prefill(model, tokens, stepped)
        for state in (prefilled, stepped):
            state.reorder(torch.tensor([[0, 2, 1], [1, 1, 0]]))
        for position in range(positions, positions + 3):
            for state in (prefilled, stepped):
                state.reserve(position + 1, exact=True)
            actual, expected = (model.step(last, state) for state in (prefilled, stepped))
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)

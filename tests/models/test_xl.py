"""Transformer-XL: segment recurrence, memory length, gradients and decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.config import build
from regard.data.batch import Batch, StreamBatch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.memory import StreamPredictions
from regard.models.xl import XL, XLConfig
from regard.tasks.language_modeling import StreamObjective
from regard.tasks.recipes import validate_run_config
from regard.text.special import SPECIAL
from regard.training.config import RunConfig, TrainingConfig
from toys import VOCABULARY_SIZE, random_model, sentences

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "pre-norm": {"norm_order": "pre", "activation": "gelu"},
    "gated, RMS, narrow keys": {"ffn_type": "gated", "norm": "rms", "key_dim": 3},
    "within documents": {"across_documents": False},
    "untied": {"tied_embeddings": "none", "output_bias": True, "embedding_norm": True},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_model(variant: str = "default", **changes: Any) -> XL:
    model = random_model(1, kind="xl", **{**VARIANTS[variant], **changes})
    assert isinstance(model, XL)
    return model


def streams(rows: int = 3, length: int = 22) -> Tensor:
    """Streams of several documents. (B, T)"""
    torch.manual_seed(2)
    tokens = torch.randint(4, VOCABULARY_SIZE, (rows, length))
    tokens[torch.rand(rows, length) < 0.1] = SPECIAL.bos
    return tokens


def segment(tokens: Tensor, *, continues: bool = True) -> Batch:
    text = Ragged(tokens.flatten(), Lengths.of([tokens.shape[1]] * len(tokens)))
    return StreamBatch(text, text, continues=continues)


def hidden_states(model: XL, tokens: Tensor, sizes: list[int]) -> Tensor:
    """Hidden states of streams that are processed in segments of these sizes. (B, T, D)"""
    objective, hidden = StreamObjective(model, TrainingConfig()), []
    for part in tokens.split(sizes, 1):
        hidden.append(objective.predict(model, segment(part)).hidden.unflatten(0, part.shape))
    return torch.cat(hidden, 1)


@every_variant
@torch.no_grad()
def test_memory_matches_one_long_segment(variant: str) -> None:
    model, tokens = make_model(variant, evaluation_memory_length=100), streams()
    whole = hidden_states(model, tokens, [22])
    for sizes in ([5, 5, 5, 5, 2], [1] * 22, [20, 2]):
        torch.testing.assert_close(hidden_states(model, tokens, sizes), whole, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_tokens_beyond_the_memory_have_no_effect() -> None:
    model, tokens = make_model(evaluation_memory_length=4, num_layers=1), streams()
    changed = tokens.clone()
    changed[:, :6] = (tokens[:, :6] + 1) % VOCABULARY_SIZE
    actual, changed_states = (
        hidden_states(model, text, [5, 5, 5, 7])[:, 10:] for text in (tokens, changed)
    )
    torch.testing.assert_close(
        actual, changed_states
    )  # the memory of the third segment has positions 6 to 9
    with_longer_memory = hidden_states(
        make_model(evaluation_memory_length=5, num_layers=1), changed, [5, 5, 5, 7]
    )[:, 10:]
    expected = hidden_states(
        make_model(evaluation_memory_length=5, num_layers=1), tokens, [5, 5, 5, 7]
    )[:, 10:]
    assert not torch.allclose(with_longer_memory, expected)


@torch.no_grad()
def test_across_documents() -> None:
    tokens = streams(1, 12)
    tokens[tokens == SPECIAL.bos] = 9
    tokens[0, 6] = SPECIAL.bos
    changed = tokens.clone()
    changed[0, :6] += 1
    for across in (True, False):
        model = make_model(across_documents=across, evaluation_memory_length=100)
        actual, changed_states = (
            hidden_states(model, text, [4, 4, 4])[:, 6:] for text in (tokens, changed)
        )
        assert torch.allclose(actual, changed_states, atol=1e-6) is not across


@torch.no_grad()
def test_new_streams_start_with_an_empty_memory() -> None:
    model, tokens = make_model(), streams()
    objective = StreamObjective(model, TrainingConfig())
    objective.predict(model, segment(tokens[:, :10]))
    fresh = objective.predict(model, segment(tokens[:, 10:], continues=False))
    torch.testing.assert_close(fresh.hidden, model(segment(tokens[:, 10:])).hidden)


def test_memory_has_no_gradient() -> None:
    model = make_model().train()
    tokens = streams()
    memory = model(segment(tokens[:, :10])).memory
    assert memory is not None
    assert not any(part.requires_grad for part in memory.states)
    model(segment(tokens[:, 10:]), memory=memory).hidden.sum().backward()
    gradient = model.embedding.table.weight.grad
    assert gradient is not None
    only_before = set(tokens[:, :10].flatten().tolist()) - set(tokens[:, 10:].flatten().tolist())
    assert only_before
    assert not gradient[sorted(only_before)].any()


def test_memory_length_in_training_and_evaluation() -> None:
    tokens = streams()
    for training, expected in ((True, 3), (False, 7)):
        model = make_model(memory_length=3, evaluation_memory_length=7).train(training)
        objective = StreamObjective(model, TrainingConfig())
        for part in tokens.split(5, 1):
            predictions = objective.predict(model, segment(part))
        assert isinstance(predictions, StreamPredictions)
        memory = predictions.memory
        assert memory is not None
        assert memory.length == expected
        assert [*map(len, memory.states)] == [3] * 2
        assert {part.shape[1] for part in memory.states} == {expected}


@every_variant
@torch.no_grad()
def test_results_do_not_depend_on_the_batch(variant: str) -> None:
    model = make_model(variant)
    texts = sentences(6, seed=4)

    def hidden(*some: list[int]) -> Tensor:
        text = Ragged.of(some)
        return model(Batch(text, text)).hidden

    alone = torch.cat([hidden(text) for text in texts])
    torch.testing.assert_close(hidden(*texts), alone, rtol=1e-4, atol=1e-5)


@every_variant
@torch.no_grad()
def test_steps_match_segments_with_memory(variant: str) -> None:
    model = make_model(variant, evaluation_memory_length=100)
    rows = streams(4, 9)
    rows[rows == SPECIAL.bos] = 7
    state = model.start(Ragged(rows.flatten(), Lengths.of([9] * 4)), capacity=3)
    stepped = []
    for position in range(9):
        state.reserve(position + 1, exact=True)
        stepped.append(model.step(rows[:, position : position + 1], state))
    expected = model.projection(hidden_states(model, rows, [4, 4, 1]))
    torch.testing.assert_close(torch.cat(stepped, 1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_generation_does_not_depend_on_the_batch(beam_size: int) -> None:
    model = make_model()
    config = SearchConfig(beam_size=beam_size, max_ratio=1.0, max_extra=8)
    prompts = sentences(5, seed=6)

    def generate(batch: list[list[int]]) -> list[list[int]]:
        source = Ragged.of([[*prompt, 3] for prompt in batch])
        return [
            hypotheses[0].tokens for hypotheses in search(model, source, config, prefixes=batch)
        ]

    assert generate(prompts) == [generate([prompt])[0] for prompt in prompts]


@pytest.mark.parametrize("setting", [{"ffn_type": "convolution"}, {"norm": "batch"}])
def test_settings_incompatible_with_memory(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=str(*setting)):
        build(XLConfig, setting)


def test_training_settings_incompatible_with_memory() -> None:
    tree = {"out": "somewhere", "model": {"kind": "xl"}, "training": {"r_drop": 1.0}}
    with pytest.raises(ConfigError, match="r_drop"):
        validate_run_config(build(RunConfig, tree))
    assert "one process" in str(XLConfig().distributed_unsupported_reason)


@torch.no_grad()
def test_attention_maps_include_the_memory() -> None:
    model, tokens = make_model(), streams()
    memory = model(segment(tokens[:, :10])).memory
    recorder = AttentionRecorder()
    model(segment(tokens[:, 10:]), recorder, memory)
    assert [weights.shape for weights in recorder.decoder] == [(3, 4, 12, 22)] * 2
    for weights in recorder.decoder:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 12))
        assert not weights.triu(11).any()  # nothing that comes later

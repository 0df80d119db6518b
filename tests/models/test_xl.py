"""Transformer-XL: a memory is as good as one long segment, and no gradient flows into it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.config import build
from regard.data.batch import Batch, StreamBatch
from regard.data.ragged import Lengths, Ragged
from regard.decoding.config import SearchConfig
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.memory import StreamPredictions
from regard.models.xl import XL, XLConfig
from regard.tasks.language_modeling import StreamObjective
from regard.tasks.recipes import checked
from regard.text.special import SPECIAL
from regard.training.config import RunConfig, TrainingConfig
from toys import WORDS, any_model, sentences

FORMS: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm_order": "pre", "activation": "gelu"},
    "gated, RMS, narrow keys": {"feedforward": "gated", "norm": "rms", "key_width": 3},
    "each document for itself": {"across_documents": False},
    "two tables": {"tied_embeddings": "none", "output_bias": True, "embedding_norm": True},
}
every_form = pytest.mark.parametrize("form", FORMS)


def model_of(form: str = "the paper's", **changes: Any) -> XL:
    model = any_model(1, kind="xl", **{**FORMS[form], **changes})
    assert isinstance(model, XL)
    return model


def streams(rows: int = 3, length: int = 22) -> Tensor:
    """Streams in which documents begin now and then. (B, T)"""
    torch.manual_seed(2)
    tokens = torch.randint(4, WORDS, (rows, length))
    tokens[torch.rand(rows, length) < 0.1] = SPECIAL.start
    return tokens


def segment(tokens: Tensor, *, continues: bool = True) -> Batch:
    text = Ragged(tokens.flatten(), Lengths.of([tokens.shape[1]] * len(tokens)))
    return StreamBatch(text, text, continues=continues)


def read(model: XL, tokens: Tensor, sizes: list[int]) -> Tensor:
    """Hidden states of streams that are read in segments of these sizes. (B, T, D)"""
    objective, found = StreamObjective(model, TrainingConfig()), []
    for part in tokens.split(sizes, 1):
        found.append(objective.predict(model, segment(part)).hidden.unflatten(0, part.shape))
    return torch.cat(found, 1)


@every_form
@torch.no_grad()
def test_a_memory_is_as_good_as_one_long_segment(form: str) -> None:
    model, tokens = model_of(form, evaluation_memory=100), streams()
    whole = read(model, tokens, [22])
    for sizes in ([5, 5, 5, 5, 2], [1] * 22, [20, 2]):
        torch.testing.assert_close(read(model, tokens, sizes), whole, rtol=1e-5, atol=1e-5)


@torch.no_grad()
def test_what_is_out_of_memory_is_not_seen() -> None:
    model, tokens = model_of(evaluation_memory=4, layers=1), streams()
    changed = tokens.clone()
    changed[:, :6] = (tokens[:, :6] + 1) % WORDS
    one, other = (read(model, text, [5, 5, 5, 7])[:, 10:] for text in (tokens, changed))
    torch.testing.assert_close(one, other)  # the third segment remembers places 6 to 9
    seen = read(model_of(evaluation_memory=5, layers=1), changed, [5, 5, 5, 7])[:, 10:]
    wanted = read(model_of(evaluation_memory=5, layers=1), tokens, [5, 5, 5, 7])[:, 10:]
    assert not torch.allclose(seen, wanted)


@torch.no_grad()
def test_documents_are_strangers_only_if_asked() -> None:
    tokens = streams(1, 12)
    tokens[tokens == SPECIAL.start] = 9
    tokens[0, 6] = SPECIAL.start
    changed = tokens.clone()
    changed[0, :6] += 1
    for across in (True, False):
        model = model_of(across_documents=across, evaluation_memory=100)
        one, other = (read(model, text, [4, 4, 4])[:, 6:] for text in (tokens, changed))
        assert torch.allclose(one, other, atol=1e-6) is not across


@torch.no_grad()
def test_a_new_stream_remembers_nothing() -> None:
    model, tokens = model_of(), streams()
    objective = StreamObjective(model, TrainingConfig())
    objective.predict(model, segment(tokens[:, :10]))
    fresh = objective.predict(model, segment(tokens[:, 10:], continues=False))
    torch.testing.assert_close(fresh.hidden, model(segment(tokens[:, 10:])).hidden)


def test_no_gradient_flows_into_a_memory() -> None:
    model = model_of().train()
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


def test_a_memory_has_its_room() -> None:
    tokens = streams()
    for training, wanted in ((True, 3), (False, 7)):
        model = model_of(memory=3, evaluation_memory=7).train(training)
        objective = StreamObjective(model, TrainingConfig())
        for part in tokens.split(5, 1):
            predictions = objective.predict(model, segment(part))
        assert isinstance(predictions, StreamPredictions)
        memory = predictions.memory
        assert memory is not None
        assert memory.length == wanted
        assert [*map(len, memory.states)] == [3] * 2
        assert {part.shape[1] for part in memory.states} == {wanted}


@every_form
@torch.no_grad()
def test_packed_is_alone(form: str) -> None:
    model = model_of(form)
    texts = sentences(6, seed=4)

    def hidden(*some: list[int]) -> Tensor:
        text = Ragged.of(some)
        return model(Batch(text, text)).hidden

    alone = torch.cat([hidden(text) for text in texts])
    torch.testing.assert_close(hidden(*texts), alone, rtol=1e-4, atol=1e-5)


@every_form
@torch.no_grad()
def test_steps_say_what_segments_with_a_memory_say(form: str) -> None:
    model = model_of(form, evaluation_memory=100)
    rows = streams(4, 9)
    rows[rows == SPECIAL.start] = 7
    state = model.start(Ragged(rows.flatten(), Lengths.of([9] * 4)), room=3)
    stepped = []
    for place in range(9):
        state.reach(place + 1, exact=True)
        stepped.append(model.step(rows[:, place : place + 1], state))
    wanted = model.projection(read(model, rows, [4, 4, 1]))
    torch.testing.assert_close(torch.cat(stepped, 1), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_prompt_goes_on_in_the_same_way_in_any_batch(beam_size: int) -> None:
    model = model_of()
    config = SearchConfig(beam_size=beam_size, max_ratio=1.0, max_extra=8)
    prompts = sentences(5, seed=6)

    def found(some: list[list[int]]) -> list[list[int]]:
        source = Ragged.of([[*prompt, 3] for prompt in some])
        return [one[0].tokens for one in search(model, source, config, prefixes=some)]

    assert found(prompts) == [found([prompt])[0] for prompt in prompts]


@pytest.mark.parametrize("setting", [{"feedforward": "convolution"}, {"norm": "batch"}])
def test_what_a_memory_does_not_go_with(setting: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=str(*setting)):
        build(XLConfig, setting)


def test_what_training_with_a_memory_does_not_go_with() -> None:
    tree = {"out": "somewhere", "model": {"kind": "xl"}, "training": {"r_drop": 1.0}}
    with pytest.raises(ConfigError, match="r_drop"):
        checked(build(RunConfig, tree))
    assert "one process" in str(XLConfig().obstacle_to_sharding)


@torch.no_grad()
def test_its_attention_can_be_seen() -> None:
    model, tokens = model_of(), streams()
    memory = model(segment(tokens[:, :10])).memory
    record = AttentionRecord()
    model(segment(tokens[:, 10:]), record, memory)
    assert [weights.shape for weights in record.decoder] == [(3, 4, 12, 22)] * 2
    for weights in record.decoder:
        torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 12))
        assert not weights.triu(11).any()  # nothing that comes later

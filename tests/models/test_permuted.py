"""XLNet: who sees whom in which stream, and that batches, memories and orders change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.batch import PermutedBatch
from regard.data.ragged import Ragged
from regard.data.streams import drawn_order, permuted_batch
from regard.layers.two_streams import TwoStreamBlock
from regard.models.memory import StreamPredictions
from regard.models.permuted import Permuted
from regard.tasks.language_modeling import StreamObjective
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from toys import WORDS, any_model, sentences

FORMS: dict[str, dict[str, Any]] = {
    "XLNet's": {},
    "pre-norm, gated": {"norm_order": "pre", "feedforward": "gated"},
    "near, narrow": {"max_distance": 3, "key_width": 3, "sinusoid_layout": "interleaved"},
    "scaled, no bias": {"scale_embedding": True, "output_bias": False, "tied_embeddings": "none"},
}
every_form = pytest.mark.parametrize("form", FORMS)


def model_of(form: str = "XLNet's", **changes: Any) -> Permuted:
    model = any_model(1, kind="permuted", **{**FORMS[form], **changes})
    assert isinstance(model, Permuted)
    return model


def text(rows: int = 2, length: int = 9, *, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return torch.randint(4, WORDS, (rows, length))


def asked(model: Permuted, tokens: Tensor, ranks: Tensor) -> Tensor:
    """Hidden states of what is asked for in some order, by place. (B, P, D)"""
    with torch.no_grad():
        found = model(permuted_batch(tokens.numpy(), ranks.numpy(), continues=False))
    return found.hidden.unflatten(0, (len(tokens), -1))


@every_form
def test_a_word_is_told_from_what_comes_earlier_in_the_order(form: str) -> None:
    model, tokens = model_of(form), text(1)
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]])
    places = (ranks[0] > 0).nonzero().squeeze(1).tolist()
    before = asked(model, tokens, ranks)
    for place in range(9):
        changed = tokens.clone()
        changed[0, place] = (changed[0, place] + 1) % WORDS
        after = asked(model, changed, ranks)
        for number, asking in enumerate(places):
            equal = torch.allclose(before[0, number], after[0, number], atol=1e-6)
            assert equal is not bool(ranks[0, place] < ranks[0, asking])


def test_left_to_right_it_sees_nothing_that_comes_later() -> None:
    model = model_of()
    tokens = text(1)[0].tolist()

    def hidden(some: list[int]) -> Tensor:
        with torch.no_grad():
            return model(model.in_order(some, None)).hidden

    for place in range(9):
        changed = [*tokens[:place], *[(token + 1) % WORDS for token in tokens[place:]]]
        close = torch.isclose(hidden(changed), hidden(tokens), atol=1e-6).all(1)
        assert close.tolist() == [True] * (place + 1) + [False] * (8 - place)


@every_form
def test_packed_is_alone(form: str) -> None:
    model = model_of(form)
    texts = sentences(6, seed=4)
    draw = np.random.default_rng(1)
    orders = [drawn_order(len(one), 2, draw).tolist() for one in texts]

    def hidden(numbers: list[int]) -> Tensor:
        source = Ragged.of([texts[number] for number in numbers])
        ranks = Ragged.of([orders[number] for number in numbers]).tokens
        target = Ragged(source.tokens.masked_fill(ranks == 0, 0), source.lengths)
        with torch.no_grad():
            filler = int((ranks == 0).sum())
            return model(PermutedBatch(source, target, filler, ranks=ranks)).hidden

    alone = torch.cat([hidden([number]) for number in range(6)])
    torch.testing.assert_close(hidden([*range(6)]), alone, rtol=1e-4, atol=1e-5)


def test_a_memory_counts_and_is_cut() -> None:
    tokens = text(2, 18)
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]] * 2)

    def second(model: Permuted, first: Tensor) -> StreamPredictions:
        objective = StreamObjective(model, TrainingConfig())
        with torch.no_grad():
            for number, part in enumerate((first, tokens[:, 9:])):
                batch = permuted_batch(part.numpy(), ranks.numpy(), continues=number > 0)
                found = objective.predict(model, batch)
        assert isinstance(found, StreamPredictions)
        return found

    changed = tokens[:, :9].clone()
    changed[:, 0] = (changed[:, 0] + 1) % WORDS
    for room, sees in ((9, True), (8, False)):
        model = model_of(memory=room, layers=1)
        one, other = second(model, tokens[:, :9]), second(model, changed)
        assert torch.allclose(one.hidden, other.hidden, atol=1e-6) is not sees
        assert one.memory is not None
        assert one.memory.length == room


def test_documents_are_segments_if_asked() -> None:
    tokens = text(1)
    tokens[0, 4] = SPECIAL.end
    ranks = torch.tensor([[0, 1, 0, 0, 0, 0, 0, 2, 0]])
    found = {}
    for wanted in (True, False):
        model = model_of(segment_documents=wanted)
        found[wanted] = asked(model, tokens, ranks)
    assert not torch.allclose(found[True], found[False])
    alone = model_of(segment_documents=True)
    with torch.no_grad():  # what counts is only whether two are of one document
        for block in alone.encoder.blocks:
            assert isinstance(block, TwoStreamBlock)
            block.segments.table[:, 1] = block.segments.table[:, 0]
    torch.testing.assert_close(asked(alone, tokens, ranks), found[False])


def test_all_weights_learn() -> None:
    """From two segments, the second of which has two documents."""
    model = model_of().train()
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]] * 2)
    tokens = text()
    tokens[:, 4] = 3
    batch = permuted_batch(tokens.numpy(), ranks.numpy(), continues=True)
    memory = model(batch).memory
    assert memory is not None
    assert not any(part.requires_grad for part in memory.states)
    found = model(batch, memory=memory)
    found.project(found.hidden).logsumexp(-1).sum().backward()
    for name, weights in model.named_parameters():
        assert weights.grad is not None, name
        assert weights.grad.any(), name


def test_orders_are_drawn_by_their_key() -> None:
    drawn = [drawn_order(30, 6, np.random.default_rng([1, 2, number])) for number in range(50)]
    for ranks in drawn:
        assert sorted(ranks[ranks > 0]) == [1, 2, 3, 4, 5]
    again = drawn_order(30, 6, np.random.default_rng([1, 2, 7]))
    assert again.tolist() == drawn[7].tolist()
    often = np.stack(drawn).astype(bool).sum(0)
    assert often.min() >= 1  # each place has its turn
    assert drawn_order(3, 6, np.random.default_rng(1)).max() == 1  # at least one

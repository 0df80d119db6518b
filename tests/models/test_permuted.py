"""XLNet: permutation masks, independence of the batch, memory and segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.data.batch import PermutedBatch
from regard.data.ragged import Ragged
from regard.data.streams import permuted_batch, sample_prediction_order
from regard.layers.two_streams import TwoStreamBlock
from regard.models.memory import StreamPredictions
from regard.models.permuted import Permuted
from regard.tasks.language_modeling import StreamObjective
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from toys import VOCABULARY_SIZE, random_model, sentences

VARIANTS: dict[str, dict[str, Any]] = {
    "XLNet": {},
    "pre-norm, gated": {"norm_order": "pre", "ffn_type": "gated"},
    "near, narrow": {"max_distance": 3, "key_dim": 3, "sinusoid_layout": "interleaved"},
    "scaled, no bias": {"scale_embedding": True, "output_bias": False, "tied_embeddings": "none"},
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make_model(variant: str = "XLNet", **changes: Any) -> Permuted:
    model = random_model(1, kind="permuted", **{**VARIANTS[variant], **changes})
    assert isinstance(model, Permuted)
    return model


def text(rows: int = 2, length: int = 9, *, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return torch.randint(4, VOCABULARY_SIZE, (rows, length))


def hidden_of_targets(model: Permuted, tokens: Tensor, ranks: Tensor) -> Tensor:
    """Hidden states of the predicted tokens of a permutation, by position. (B, P, D)"""
    with torch.no_grad():
        predictions = model(permuted_batch(tokens.numpy(), ranks.numpy(), continues=False))
    return predictions.hidden.unflatten(0, (len(tokens), -1))


@every_variant
def test_predictions_depend_on_lower_ranks_only(variant: str) -> None:
    model, tokens = make_model(variant), text(1)
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]])
    positions = (ranks[0] > 0).nonzero().squeeze(1).tolist()
    before = hidden_of_targets(model, tokens, ranks)
    for position in range(9):
        changed = tokens.clone()
        changed[0, position] = (changed[0, position] + 1) % VOCABULARY_SIZE
        after = hidden_of_targets(model, changed, ranks)
        for number, target in enumerate(positions):
            equal = torch.allclose(before[0, number], after[0, number], atol=1e-6)
            assert equal is not bool(ranks[0, position] < ranks[0, target])


def test_left_to_right_batch_is_causal() -> None:
    model = make_model()
    tokens = text(1)[0].tolist()

    def hidden(tokens_list: list[int]) -> Tensor:
        with torch.no_grad():
            return model(model.left_to_right_batch(tokens_list, None)).hidden

    for position in range(9):
        changed = [
            *tokens[:position],
            *[(token + 1) % VOCABULARY_SIZE for token in tokens[position:]],
        ]
        close = torch.isclose(hidden(changed), hidden(tokens), atol=1e-6).all(1)
        assert close.tolist() == [True] * (position + 1) + [False] * (8 - position)


@every_variant
def test_results_do_not_depend_on_the_batch(variant: str) -> None:
    model = make_model(variant)
    texts = sentences(6, seed=4)
    rng = np.random.default_rng(1)
    ranks_of_texts = [sample_prediction_order(len(text_ids), 2, rng).tolist() for text_ids in texts]

    def hidden(numbers: list[int]) -> Tensor:
        source = Ragged.of([texts[number] for number in numbers])
        ranks = Ragged.of([ranks_of_texts[number] for number in numbers]).tokens
        target = Ragged(source.tokens.masked_fill(ranks == 0, 0), source.lengths)
        with torch.no_grad():
            filler = int((ranks == 0).sum())
            return model(PermutedBatch(source, target, filler, ranks=ranks)).hidden

    separate = torch.cat([hidden([number]) for number in range(6)])
    torch.testing.assert_close(hidden([*range(6)]), separate, rtol=1e-4, atol=1e-5)


def test_memory_is_used_and_truncated() -> None:
    tokens = text(2, 18)
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]] * 2)

    def second(model: Permuted, first: Tensor) -> StreamPredictions:
        objective = StreamObjective(model, TrainingConfig())
        with torch.no_grad():
            for number, part in enumerate((first, tokens[:, 9:])):
                batch = permuted_batch(part.numpy(), ranks.numpy(), continues=number > 0)
                predictions = objective.predict(model, batch)
        assert isinstance(predictions, StreamPredictions)
        return predictions

    changed = tokens[:, :9].clone()
    changed[:, 0] = (changed[:, 0] + 1) % VOCABULARY_SIZE
    for length, visible in ((9, True), (8, False)):
        model = make_model(memory_length=length, num_layers=1)
        actual, changed_output = second(model, tokens[:, :9]), second(model, changed)
        assert torch.allclose(actual.hidden, changed_output.hidden, atol=1e-6) is not visible
        assert actual.memory is not None
        assert actual.memory.length == length


def test_segment_documents() -> None:
    tokens = text(1)
    tokens[0, 4] = SPECIAL.eos
    ranks = torch.tensor([[0, 1, 0, 0, 0, 0, 0, 2, 0]])
    hidden = {}
    for enabled in (True, False):
        model = make_model(segment_documents=enabled)
        hidden[enabled] = hidden_of_targets(model, tokens, ranks)
    assert not torch.allclose(hidden[True], hidden[False])
    separate = make_model(segment_documents=True)
    with torch.no_grad():  # what counts is only whether two are of one document
        for block in separate.encoder.blocks:
            assert isinstance(block, TwoStreamBlock)
            block.segments.table[:, 1] = block.segments.table[:, 0]
    torch.testing.assert_close(hidden_of_targets(separate, tokens, ranks), hidden[False])


def test_all_weights_have_gradients() -> None:
    """Two segments, the second of which has two documents."""
    model = make_model().train()
    ranks = torch.tensor([[0, 3, 0, 1, 0, 4, 2, 0, 0]] * 2)
    tokens = text()
    tokens[:, 4] = 3
    batch = permuted_batch(tokens.numpy(), ranks.numpy(), continues=True)
    memory = model(batch).memory
    assert memory is not None
    assert not any(part.requires_grad for part in memory.states)
    predictions = model(batch, memory=memory)
    predictions.project(predictions.hidden).logsumexp(-1).sum().backward()
    for name, weights in model.named_parameters():
        assert weights.grad is not None, name
        assert weights.grad.any(), name


def test_permutations_are_reproducible() -> None:
    permutations = [
        sample_prediction_order(30, 6, np.random.default_rng([1, 2, number]))
        for number in range(50)
    ]
    for ranks in permutations:
        assert sorted(ranks[ranks > 0]) == [1, 2, 3, 4, 5]
    again = sample_prediction_order(30, 6, np.random.default_rng([1, 2, 7]))
    assert again.tolist() == permutations[7].tolist()
    counts = np.stack(permutations).astype(bool).sum(0)
    assert counts.min() >= 1  # each place has its turn
    assert sample_prediction_order(3, 6, np.random.default_rng(1)).max() == 1  # at least one

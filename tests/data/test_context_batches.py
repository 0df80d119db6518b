"""Batches of documents: which tokens are context, and that no loss counts them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from document_corpora import write_document_store
from regard.data.batch import Batch, ContextBatch
from regard.data.document_context import SEPARATOR
from regard.data.loader import Loader
from regard.data.pairs import PairDataset, context_batch, context_length, with_eos
from regard.data.sampling import Position
from regard.data.shapes import BatchShape
from regard.data.store import Store
from regard.text.special import SPECIAL
from regard.training.config import TrainingConfig
from regard.training.objective import Objective
from toys import CollectingCallback, altered, autoregressive_model, run, small_run

LENGTHS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=12
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_document_store(tmp_path_factory.mktemp("store"), 2, 1)


@pytest.fixture(scope="module")
def unigram_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_document_store(tmp_path_factory.mktemp("unigram"), 2, 1, tokenizer="unigram")


def random_batch(lengths: list[tuple[int, int, int]]) -> tuple[ContextBatch, Batch]:
    """Pairs with context of these lengths, and the same without marking it."""
    draw = random.Random(0)
    sources = [[draw.randrange(4, 40) for _ in range(length)] for length, _, _ in lengths]
    targets = [
        [draw.randrange(4, 40) for _ in range(context + length)] for _, context, length in lengths
    ]
    sides = with_eos(sources), with_eos(targets)
    return context_batch(*sides, [context for _, context, _ in lengths]), Batch(*sides)


def test_context_ends_with_the_last_separator() -> None:
    assert context_length([]) == context_length([7, 8]) == 0
    assert context_length([7, SEPARATOR, 8, 9, SEPARATOR, 5]) == 5
    assert context_length([SEPARATOR]) == 1


@given(LENGTHS)
def test_only_the_sentence_counts(lengths: list[tuple[int, int, int]]) -> None:
    batch, plain = random_batch(lengths)
    assert batch.target_tokens == sum(length + 1 for _, _, length in lengths)
    assert int(batch.is_context.sum()) == batch.filler
    doubled = batch.duplicate()
    assert doubled.target_tokens == 2 * batch.target_tokens
    assert torch.equal(doubled.is_context, torch.cat([batch.is_context] * 2))
    assert torch.equal(batch.target.tokens, plain.target.tokens)


@given(LENGTHS, st.integers(1, 100))
def test_filled_batches_have_the_same_context(
    lengths: list[tuple[int, int, int]], unit: int
) -> None:
    batch, _ = random_batch(lengths)
    shape = BatchShape.bucket(batch, unit, 64)
    filled = shape.filled(batch)
    assert filled.target_tokens == batch.target_tokens
    again = shape.unpack(shape.pack(filled))
    assert isinstance(again, ContextBatch)
    assert torch.equal(again.is_context[: len(batch.is_context)], batch.is_context)
    assert not again.is_context[len(batch.is_context) :].any()


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_loss_is_that_of_the_sentence(kind: str, weight: float) -> None:
    """It is the loss of the whole target without the terms of the context."""
    lengths = [(5, 4, 3), (2, 0, 6), (7, 9, 0)]
    batch, _ = random_batch(lengths)
    model = autoregressive_model(0, kind=kind)
    objective = Objective(TrainingConfig(label_smoothing=0.1, r_drop=weight))
    with torch.no_grad():
        predictions = model(batch)
        log_probs = predictions.project(predictions.hidden).log_softmax(-1)[~batch.is_context]
        nll = -log_probs.gather(1, predictions.targets[~batch.is_context, None]).sum()
        loss = objective(model, batch)
    torch.testing.assert_close(loss.nll, nll)
    torch.testing.assert_close(loss.total, 0.9 * nll - 0.1 * log_probs.mean(1).sum())


def test_batches_are_the_rows_of_the_store(store: Store) -> None:
    part = store.part("train")
    dataset = PairDataset(part)
    _, batch = next(Loader(dataset, 200, seed=1).batches(Position()))
    assert isinstance(batch, ContextBatch)
    rows = batch.target.tokens.split(batch.target.lengths.lengths.tolist())
    listed = {(*part.target[i].tolist(), SPECIAL.eos) for i in range(len(part))}
    for row, length in zip(rows, batch.context_lengths.tolist(), strict=True):
        assert (*row.tolist(),) in listed
        assert length == context_length(row.numpy())
        assert SEPARATOR not in row[length:]


def test_sampled_segmentations_keep_text_and_context(unigram_store: Store) -> None:
    config = small_run(Path("unused"), unigram_store)
    config = altered(config, data={"subword_nbest_size": 8})
    part, tokenizers = unigram_store.part("train"), unigram_store.tokenizers
    dataset = PairDataset.of(unigram_store, part, config.data, seed=3)
    indices = torch.arange(40).numpy()
    batch = dataset.examples(1).collate(indices, indices)
    assert isinstance(batch, ContextBatch)
    changed = 0
    for side, rows in (("source", part.source), ("target", part.target)):
        tokenizer, ragged = getattr(tokenizers, side), getattr(batch, side)
        sampled = ragged.tokens.split(ragged.lengths.lengths.tolist())
        for index, row in enumerate(sampled):
            ids, stored = row.tolist()[:-1], rows[index].tolist()
            assert parts(ids, tokenizer) == parts(stored, tokenizer)
            changed += ids != stored
    assert changed > 20
    lengths = [context_length(row.tolist()) for row in sampled]
    assert batch.context_lengths.tolist() == lengths


def parts(ids: list[int], tokenizer: Any) -> list[str]:
    """The texts between separators."""
    texts: list[list[int]] = [[]]
    for token in ids:
        if token == SEPARATOR:
            texts.append([])
        else:
            texts[-1].append(token)
    return [tokenizer.decode(text) for text in texts]


@pytest.mark.parametrize("data", [{}, {"subword_nbest_size": 8}])
def test_run_is_resumed_exactly(tmp_path: Path, unigram_store: Store, data: dict[str, Any]) -> None:
    whole = altered(small_run(tmp_path / "whole", unigram_store), data=data)
    run(whole, unigram_store)
    first = altered(whole, out=str(tmp_path / "parts"), training={"max_steps": 10})
    run(first, unigram_store)
    callback = CollectingCallback()
    run(altered(whole, out=str(tmp_path / "parts")), unigram_store, callback=callback)
    assert callback.first_step == 10
    for name in ("model.safetensors", "config.json"):
        expected = (tmp_path / "whole" / name).read_bytes()
        assert (tmp_path / "parts" / name).read_bytes() == expected


def test_pairs_without_context_are_plain_batches(store: Store) -> None:
    part = replace(store.part("train"), has_target_context=False)
    indices = torch.arange(3).numpy()
    assert type(PairDataset(part).examples(None).collate(indices, indices)) is Batch

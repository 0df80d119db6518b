"""Datasets of plain text, for causal and masked language models."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from regard.config import build
from regard.data.batch import SentencePairBatch
from regard.data.loader import Loader, validation_batches
from regard.data.masking import Masker, MaskingConfig
from regard.data.plain_text import CausalDataset, MaskedDataset, chunk_documents
from regard.data.prefetch import prefetch_batches
from regard.data.rows import Rows
from regard.data.sampling import Position, RankShard
from regard.data.store import Store
from regard.text.special import SPECIAL
from toys import write_text_store

START = Position()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


def causal(store: Store, seed: int = 1, shard: RankShard | None = None) -> Loader:
    """Chunks of up to six tokens, at least five per batch."""
    data = CausalDataset(store.text("train").documents, 6, SPECIAL.bos, seed)
    return Loader(data, 30, seed=seed, shard=shard)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_chunks_partition_the_text(seed: int | None) -> None:
    lengths = [1, 6, 7, 40, 3, 12]
    ids = np.arange(sum(lengths))
    documents = Rows(ids, np.cumsum([0, *lengths]))
    generator = None if seed is None else np.random.default_rng(seed)
    chunks = chunk_documents(documents, 6, generator)
    assert (
        np.concatenate([ids[b:e] for b, e in zip(chunks.begins, chunks.ends, strict=True)]).tolist()
        == ids.tolist()
    )
    assert chunks.lengths().max() <= 6
    assert chunks.lengths().min() >= 1
    assert chunks.begins[chunks.firsts].tolist() == np.cumsum([0, *lengths])[:-1].tolist()


def test_causal_inputs_are_shifted_targets(store: Store) -> None:
    text = store.text("train")
    ids = text.documents.flat()
    loader = causal(store)
    seen: list[int] = []
    followers: list[tuple[int, int]] = []
    for after, batch in loader.batches(Position()):
        seen += batch.target.tokens.tolist()
        followers += zip(batch.source.tokens.tolist(), batch.target.tokens.tolist(), strict=True)
        assert batch.source.lengths is batch.target.lengths
        assert batch.target_tokens == batch.target.lengths.total <= 30
        if after.epoch == 1:
            break
    assert sorted(seen) == sorted(ids.tolist())
    shifted = np.where(np.roll(ids, 1) == SPECIAL.eos, SPECIAL.bos, np.roll(ids, 1))
    assert sorted(followers) == sorted(zip(shifted.tolist(), ids.tolist(), strict=True))


def test_batches_depend_on_seed_and_epoch_only(store: Store) -> None:
    def some(seed: int, position: Position = START, workers: int = 0) -> list[list[int]]:
        loader = causal(store, seed)
        batches = islice(prefetch_batches(loader, position, workers), 40)
        return [batch.target.tokens.tolist() for _, batch in batches]

    assert some(1) == some(1)
    assert some(1) != some(2)
    assert some(1, Position(0, 5))[:35] == some(1)[5:]
    assert some(1, workers=2) == some(1)


def test_shards_partition_a_batch(store: Store) -> None:
    loaders = causal(store), *(causal(store, shard=RankShard(rank, 2)) for rank in (0, 1))
    rows = zip(*(islice(loader.batches(Position()), 20) for loader in loaders), strict=True)
    for (_, batch), (_, left), (_, right) in rows:
        parts = [
            token
            for part in (left, right)
            if not part.filler
            for token in part.target.tokens.tolist()
        ]
        assert sorted(parts) == sorted(batch.target.tokens.tolist())


def test_validation_has_every_token_once(store: Store) -> None:
    text = store.text("valid")
    data = CausalDataset(text.documents, 6, SPECIAL.bos)
    batches = list(validation_batches(data, 30))
    tokens = sorted(token for batch in batches for token in batch.target.tokens.tolist())
    assert tokens == sorted(text.documents.flat().tolist())


def masked(store: Store, part: str = "train", *, seed: int = 1, **settings: Any) -> MaskedDataset:
    """Rows of up to twelve tokens, optionally of two segments."""
    pairs = settings.pop("sentence_pairs", False)
    masker = Masker(store.tokenizers.source, build(MaskingConfig, settings), SPECIAL.unk)
    documents = store.text(part).documents
    return MaskedDataset(documents, 12, SPECIAL.bos, masker, seed=seed, sentence_pairs=pairs)


def rows(store: Store, seed: int = 1, **masking: Any) -> Any:
    """Inputs and labels of the rows of three epochs, by epoch."""
    rows: dict[int, list[tuple[list[int], list[int]]]] = {0: [], 1: [], 2: []}
    epoch = 0
    batches = Loader(masked(store, seed=seed, **masking), 60, seed=seed).batches(Position())
    while epoch < 3:
        after, batch = next(batches)
        sizes = batch.source.lengths.lengths.tolist()
        inputs, labels = (side.tokens.split(sizes) for side in batch.sides)
        rows[epoch] += [(a.tolist(), b.tolist()) for a, b in zip(inputs, labels, strict=True)]
        assert batch.target_tokens == int((batch.target.tokens != SPECIAL.pad).sum())
        epoch = after.epoch
    return rows


def test_dynamic_and_static_masking(store: Store) -> None:
    changing, fixed = rows(store), rows(store, dynamic=False)
    assert sorted(fixed[0]) == sorted(fixed[1]) == sorted(fixed[2])
    assert sorted(changing[0]) != sorted(changing[1])
    assert changing == rows(store)
    assert changing != rows(store, seed=2)


def test_rows_have_bos_and_eos(store: Store) -> None:
    lengths = []
    for inputs, labels in rows(store)[0]:
        assert inputs[0] == SPECIAL.bos
        assert inputs[-1] == SPECIAL.eos
        assert SPECIAL.eos not in inputs[:-1]
        assert len(inputs) == len(labels) <= 12
        lengths.append(len(inputs) - 2)
    text = store.text("train").documents
    assert sum(lengths) == text.lengths().sum() - len(text)


def sentence_pairs(store: Store, count: int, workers: int = 0) -> list[SentencePairBatch]:
    """The first batches of rows of two segments."""
    loader = Loader(masked(store, sentence_pairs=True), 60, seed=1)
    batches = [batch for _, batch in islice(prefetch_batches(loader, Position(), workers), count)]
    return [batch for batch in batches if isinstance(batch, SentencePairBatch)]


def test_sentence_pairs(store: Store) -> None:
    ids = store.text("train").documents.flat().tolist()
    bigrams = set(pairwise(ids))
    random_pairs = true_pairs = 0
    batches = sentence_pairs(store, 60)
    assert len(batches) == 60
    for batch in batches:
        sizes = batch.source.lengths.lengths.tolist()
        assert max(sizes) <= 12
        originals = batch.source.tokens.where(batch.target.tokens == 0, batch.target.tokens)
        parts = originals.split(sizes), batch.segments.split(sizes)
        labels = batch.next_sentence_labels.tolist()
        for row, segments, is_random in zip(*parts, labels, strict=True):
            ends = (row == SPECIAL.eos).nonzero().flatten().tolist()
            assert ends[-1] == len(row) - 1
            assert segments.tolist() == [int(position > ends[0]) for position in range(len(row))]
            random_pairs += is_random
            true_pairs += not is_random
            if len(ends) == 2 and not is_random:
                assert (int(row[ends[0] - 1]), int(row[ends[0] + 1])) in bigrams
    assert 0.35 < random_pairs / (random_pairs + true_pairs) < 0.6


def test_workers_send_all_fields(store: Store) -> None:
    def some(workers: int) -> list[Any]:
        return [
            [batch.filler]
            + [side.tokens.tolist() for side in batch.sides]
            + [batch.segments.tolist(), batch.next_sentence_labels.tolist()]
            for batch in sentence_pairs(store, 10, workers)
        ]

    assert some(2) == some(0)
    assert len(some(0)) == 10


def test_validation_is_deterministic(store: Store) -> None:
    def once() -> list[list[int]]:
        batches = validation_batches(masked(store, "valid"), 60)
        return [batch.source.tokens.tolist() for batch in batches]

    assert once() == once()

"""Datasets and batches of labelled text."""

from __future__ import annotations

from pathlib import Path

import pytest

from labelled import write_labelled_store, write_tagged_store
from regard.data.batch import TaggedBatch
from regard.data.labelled import ClassifiedCollate, truncate_texts
from regard.data.loader import Loader, validation_batches
from regard.data.prefetch import prefetch_batches
from regard.data.sampling import Position
from regard.data.store import Store
from regard.errors import ConfigError
from regard.tasks import TASKS
from regard.text.special import SPECIAL
from regard.training.config import RunConfig
from toys import altered, some_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


def tagging_config(store: Store, max_length: int = 64, **data: int) -> RunConfig:
    """The settings of a tagger with a maximum length."""
    model = {"kind": "tagger", "max_positions": max_length}
    return altered(some_run(store.folder / "never", store, model, seed=1), data=data)


def training_loader(store: Store, batch_tokens: int, **data: int) -> Loader:
    """A loader of the training examples."""
    return Loader(
        TASKS["tagging"].training_data(store, tagging_config(store, **data)), batch_tokens, seed=1
    )


def test_tagged_batches(store: Store) -> None:
    seen = 0
    data = TASKS["tagging"].validation_data(store, tagging_config(store))
    for batch in validation_batches(data, 100):
        assert isinstance(batch, TaggedBatch)
        rows = batch.source.lengths.lengths
        assert batch.words.total == int(rows.sum()) - 2 * len(rows)
        assert len(batch.words) == batch.target.lengths.total
        first = batch.source.tokens[batch.source.lengths.offsets[:-1].long()]
        assert (first == SPECIAL.bos).all()
        assert int(batch.target.tokens.min()) >= 1
        assert len(batch.duplicate().words) == 2 * len(batch.words)
        seen += len(rows)
    assert seen == 60


def test_subword_sampling_keeps_words(store: Store) -> None:
    loaders = training_loader(store, 200, subword_nbest_size=8), training_loader(store, 200)
    sampled, plain = (next(loader.batches(Position()))[1] for loader in loaders)
    assert isinstance(sampled, TaggedBatch)
    assert isinstance(plain, TaggedBatch)
    assert sampled.target.tokens.tolist() == plain.target.tokens.tolist()
    assert sampled.words.lengths.tolist() != plain.words.lengths.tolist()
    tokenizer = store.tokenizers.source
    texts = [tokenizer.decode(batch.source.tokens.tolist()) for batch in (sampled, plain)]
    assert texts[0] == texts[1]


def test_workers_make_the_same_batches(store: Store) -> None:
    loader = training_loader(store, 300)
    expected, actual = (
        prefetch_batches(loader, Position(), 0),
        prefetch_batches(loader, Position(), 1),
    )
    for _ in range(3):
        (position, batch), (worker_position, worker_batch) = next(expected), next(actual)
        assert position == worker_position
        assert isinstance(batch, TaggedBatch)
        assert isinstance(worker_batch, TaggedBatch)
        assert batch.words.lengths.tolist() == worker_batch.words.lengths.tolist()
        assert batch.source.tokens.tolist() == worker_batch.source.tokens.tolist()


def test_sentence_longer_than_the_model_is_rejected(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"--max-tokens 4\."):
        TASKS["tagging"].training_data(store, tagging_config(store, max_length=6))


def test_rows_of_one_text_or_two(tmp_path: Path) -> None:
    store = write_labelled_store(tmp_path, pairs=True)
    config = some_run(tmp_path, store, {"kind": "classifier", "max_positions": 64})
    data = TASKS["classification"].validation_data(store, config)
    batch = next(validation_batches(data, 60))
    is_eos = (batch.source.tokens == SPECIAL.eos).long()
    assert batch.source.lengths.sums(is_eos).tolist() == [2] * len(batch.source.lengths)
    assert batch.target.lengths.lengths.tolist() == [1] * len(batch.source.lengths)
    assert batch.source.lengths.total <= 60
    truncated = ClassifiedCollate(SPECIAL.bos, 5)([[[7, 8, 9], [4]], [[5]]])
    assert truncated.source.tokens.tolist() == [2, 7, 3, 4, 3, 2, 5, 3]


def test_longer_text_is_truncated_first() -> None:
    assert truncate_texts([[1] * 9, [2] * 3], 8) == [[1] * 5, [2] * 3]
    assert truncate_texts([[1] * 9, [2] * 3], 4) == [[1] * 2, [2] * 2]
    assert truncate_texts([[1, 2, 3]], 2) == [[1, 2]]
    assert truncate_texts([[1], [2]], 2) == [[1], [2]]

"""Labelled text in batches: words with their subwords, texts with their labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from labelled import write_labelled_store, write_tagged_store
from regard.data.batch import TaggedBatch
from regard.data.labelled import ClassifiedCollate, fitted
from regard.data.loader import Loader, validation_batches
from regard.data.prefetch import prefetched
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


def tagging(store: Store, context: int = 64, **data: int) -> RunConfig:
    """The settings of a run of a tagger that reads so many tokens."""
    model = {"kind": "tagger", "max_positions": context}
    return altered(some_run(store.folder / "never", store, model, seed=1), data=data)


def loaded(store: Store, budget: int, **data: int) -> Loader:
    """The training part of a store."""
    return Loader(TASKS["tagging"].training_data(store, tagging(store, **data)), budget, seed=1)


def test_batches_of_words(store: Store) -> None:
    seen = 0
    data = TASKS["tagging"].validation_data(store, tagging(store))
    for batch in validation_batches(data, 100):
        assert isinstance(batch, TaggedBatch)
        rows = batch.source.lengths.lengths
        assert batch.words.total == int(rows.sum()) - 2 * len(rows)
        assert len(batch.words) == batch.target.lengths.total
        first = batch.source.tokens[batch.source.lengths.offsets[:-1].long()]
        assert (first == SPECIAL.start).all()
        assert int(batch.target.tokens.min()) >= 1
        assert len(batch.twice().words) == 2 * len(batch.words)
        seen += len(rows)
    assert seen == 60


def test_words_are_cut_anew_and_stay_words(store: Store) -> None:
    loaders = loaded(store, 200, sampling_candidates=8), loaded(store, 200)
    one, two = (next(loader.batches(Position()))[1] for loader in loaders)
    assert isinstance(one, TaggedBatch)
    assert isinstance(two, TaggedBatch)
    assert one.target.tokens.tolist() == two.target.tokens.tolist()
    assert one.words.lengths.tolist() != two.words.lengths.tolist()
    texts = [store.tokenizers.source.decode(one.source.tokens.tolist()) for one in (one, two)]
    assert texts[0] == texts[1]


def test_workers_make_the_same_batches(store: Store) -> None:
    loader = loaded(store, 300)
    here, there = prefetched(loader, Position(), 0), prefetched(loader, Position(), 1)
    for _ in range(3):
        (place, one), (other, two) = next(here), next(there)
        assert place == other
        assert isinstance(one, TaggedBatch)
        assert isinstance(two, TaggedBatch)
        assert one.words.lengths.tolist() == two.words.lengths.tolist()
        assert one.source.tokens.tolist() == two.source.tokens.tolist()


def test_a_sentence_that_no_model_could_read(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"--max-tokens 4\."):
        TASKS["tagging"].training_data(store, tagging(store, context=6))


def test_rows_of_one_text_and_of_two(tmp_path: Path) -> None:
    store = write_labelled_store(tmp_path, pairs=True)
    config = some_run(tmp_path, store, {"kind": "classifier", "max_positions": 64})
    data = TASKS["classification"].validation_data(store, config)
    batch = next(validation_batches(data, 60))
    ends = (batch.source.tokens == SPECIAL.end).long()
    assert batch.source.lengths.sums(ends).tolist() == [2] * len(batch.source.lengths)
    assert batch.target.lengths.lengths.tolist() == [1] * len(batch.source.lengths)
    assert batch.source.lengths.total <= 60
    short = ClassifiedCollate(SPECIAL.start, 5)([[[7, 8, 9], [4]], [[5]]])
    assert short.source.tokens.tolist() == [2, 7, 3, 4, 3, 2, 5, 3]


def test_the_longer_text_is_cut_first() -> None:
    assert fitted([[1] * 9, [2] * 3], 8) == [[1] * 5, [2] * 3]
    assert fitted([[1] * 9, [2] * 3], 4) == [[1] * 2, [2] * 2]
    assert fitted([[1, 2, 3]], 2) == [[1, 2]]
    assert fitted([[1], [2]], 2) == [[1], [2]]

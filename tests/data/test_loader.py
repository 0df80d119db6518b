"""Loaders of sentence pairs: epochs, resuming, subword regularization, shards and weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from data.corpora import prepare_corpora, prepare_pairs, some_pairs, texts_of
from regard.config import build
from regard.data.batch import Batch
from regard.data.filters import CorpusFilterConfig
from regard.data.loader import DataConfig, Loader, validation_batches
from regard.data.pairs import PairDataset, collate, with_eos
from regard.data.ragged import Ragged
from regard.data.rows import SideReader
from regard.data.sampling import Position, RankShard
from regard.data.store import Store
from regard.errors import ConfigError
from regard.text.special import SPECIAL

BATCH_TOKENS = 60
PLAIN = DataConfig(batch_tokens=BATCH_TOKENS)
SAMPLED = DataConfig(batch_tokens=BATCH_TOKENS, subword_nbest_size=8, subword_temperature=20.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("loader")
    prepare_pairs(folder / "store", some_pairs(), some_pairs(12, seed=2), joint=False)
    return Store(folder / "store")


def split(row: Ragged) -> list[list[int]]:
    """The sentences of a row as lists."""
    return [sentence.tolist() for sentence in row.tokens.split(row.lengths.lengths.tolist())]


def decode_pairs(store: Store, batches: Sequence[Batch]) -> list[tuple[str, str]]:
    """All pairs as text."""
    return [
        (store.tokenizers.source.decode(source), store.tokenizers.target.decode(target))
        for batch in batches
        for source, target in zip(split(batch.source), split(batch.target), strict=True)
    ]


def training_loader(
    store: Store, config: DataConfig, *, seed: int = 1, shard: RankShard | None = None
) -> Loader:
    """The training pairs of a store."""
    pairs = PairDataset.of(store, store.part("train"), config, seed)
    return Loader(pairs, config.batch_tokens, seed=seed, shard=shard)


def validation(store: Store, batch_tokens: int) -> list[Batch]:
    """The batches of the validation set."""
    return list(validation_batches(PairDataset(store.part("valid")), batch_tokens))


def epochs(
    store: Store, config: DataConfig, count: int, *, seed: int = 1, start: Position | None = None
) -> list[list[Batch]]:
    """The batches of the next epochs."""
    batches: list[list[Batch]] = [[]]
    for position, batch in training_loader(store, config, seed=seed).batches(start or Position()):
        batches[-1].append(batch)
        if position.batch == 0:
            if len(batches) == count:
                break
            batches.append([])
    return batches


def stream(
    store: Store, config: DataConfig, position: Position, count: int
) -> list[tuple[Position, list[list[int]], list[list[int]]]]:
    """Batches from a position on, as lists."""
    batches = training_loader(store, config, seed=5).batches(position)
    return [
        (after, split(batch.source), split(batch.target)) for after, batch in islice(batches, count)
    ]


# Rows.


def test_with_eos_appends_eos_to_each_sentence() -> None:
    assert split(with_eos([[5, 6], [], [7]])) == [
        [5, 6, SPECIAL.eos],
        [SPECIAL.eos],
        [7, SPECIAL.eos],
    ]


def test_collate_selects_pairs_by_index(store: Store) -> None:
    part = store.part("train")
    batch = collate(part, [7, 3])
    for row, sentences in ((batch.source, part.source), (batch.target, part.target)):
        assert split(row) == [[*sentences[i].tolist(), SPECIAL.eos] for i in (7, 3)]


# Training.


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_each_epoch_has_every_pair_once(store: Store, config: DataConfig) -> None:
    for epoch in epochs(store, config, 3):
        assert sorted(decode_pairs(store, epoch)) == sorted(texts_of(store))


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_every_sentence_has_one_eos(store: Store, config: DataConfig) -> None:
    for batch in epochs(store, config, 1)[0]:
        for sentence in [*split(batch.source), *split(batch.target)]:
            assert sentence.index(SPECIAL.eos) == len(sentence) - 1


@pytest.mark.parametrize("pair", [("a", "b b"), ("b b", "a")])
def test_batches_count_eos_towards_max_tokens(tmp_path: Path, pair: tuple[str, str]) -> None:
    filters = CorpusFilterConfig(skip_duplicates=False)
    prepare_pairs(tmp_path / "store", [pair] * 50, filters=filters, kind="word")
    # The longer side has three tokens per sentence.
    [epoch] = epochs(Store(tmp_path / "store"), DataConfig(batch_tokens=15), 1)
    assert [len(batch.source.lengths) for batch in epoch] == [5] * 10


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_batches_resume_from_any_position(store: Store, config: DataConfig) -> None:
    length = len(epochs(store, config, 1, seed=5)[0])
    whole = stream(store, config, Position(), 2 * length)
    for stop in (1, length - 1, length, length + 1):
        rest = stream(store, config, whole[stop - 1][0], 2 * length - stop)
        assert rest == whole[stop:]


def test_order_depends_on_epoch_and_seed(store: Store) -> None:
    first, second = epochs(store, PLAIN, 2)
    [other] = epochs(store, PLAIN, 1, seed=2)
    orders = [tuple(decode_pairs(store, epoch)) for epoch in (first, second, other)]
    assert len(set(orders)) == 3


def test_ids_are_unchanged_without_subword_regularization(store: Store) -> None:
    part = store.part("train")
    expected = sorted([*part.source[i].tolist(), SPECIAL.eos] for i in range(len(part)))
    for epoch in epochs(store, PLAIN, 2):
        assert sorted(sentence for batch in epoch for sentence in split(batch.source)) == expected


def test_segmentations_differ_between_epochs(store: Store) -> None:
    segmentations: dict[str, set[tuple[int, ...]]] = {}
    for epoch in epochs(store, SAMPLED, 6):
        for batch in epoch:
            for ids in split(batch.target):
                segmentations.setdefault(store.tokenizers.target.decode(ids), set()).add(tuple(ids))
    several = [text for text, ids in segmentations.items() if len(ids) > 1]
    assert len(several) > len(segmentations) / 2


def test_segmentation_does_not_depend_on_the_batch(
    store: Store,
) -> None:
    other = DataConfig(batch_tokens=200, subword_nbest_size=8, subword_temperature=20.0)
    small, large = (
        sorted(
            pair
            for batch in epochs(store, config, 1)[0]
            for pair in zip(split(batch.source), split(batch.target), strict=True)
        )
        for config in (SAMPLED, other)
    )
    assert small == large


def test_copies_of_a_sentence_are_segmented_independently(tmp_path: Path) -> None:
    pairs = [*some_pairs(), *[some_pairs()[0]] * 40]
    prepare_pairs(tmp_path / "store", pairs, filters=CorpusFilterConfig(skip_duplicates=False))
    store = Store(tmp_path / "store")
    segmentations = {
        tuple(ids)
        for batch in epochs(store, SAMPLED, 1)[0]
        for ids in split(batch.source)
        if store.tokenizers.source.decode(ids) == pairs[0][0]
    }
    assert len(segmentations) > 1


@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_subword_regularization_needs_a_unigram_tokenizer(tmp_path: Path, kind: str) -> None:
    prepare_pairs(tmp_path / "store", some_pairs(), kind=kind)
    with pytest.raises(ConfigError, match=f"data.subword_nbest_size .* that of the data is {kind}"):
        training_loader(Store(tmp_path / "store"), SAMPLED)


# Shards.


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
@pytest.mark.parametrize("processes", [2, 3, 40])
def test_shards_partition_the_batches(store: Store, config: DataConfig, processes: int) -> None:
    whole = islice(training_loader(store, config, seed=5).batches(Position(0, 3)), 12)
    shards = [
        training_loader(store, config, seed=5, shard=RankShard(number, processes)).batches(
            Position(0, 3)
        )
        for number in range(processes)
    ]
    for (after, batch), *parts in zip(whole, *shards, strict=False):
        assert all(position == after for position, _ in parts)
        assert sum(part.target_tokens for _, part in parts) == batch.target_tokens
        actual = [
            pair
            for _, part in parts
            if part.target_tokens
            for pair in zip(split(part.source), split(part.target), strict=True)
        ]
        expected = zip(split(batch.source), split(batch.target), strict=True)
        assert sorted(actual) == sorted(expected)


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_each_rank_reads_only_its_shard(
    store: Store, config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    indices: list[int] = []
    get = SideReader.__getitem__

    def recording_getitem(sentences: SideReader, index: int) -> Any:
        indices.append(index)
        return get(sentences, index)

    monkeypatch.setattr(SideReader, "__getitem__", recording_getitem)
    seen = []
    for number in range(2):
        for after, _ in training_loader(store, config, shard=RankShard(number, 2)).batches(
            Position()
        ):
            if after.epoch:
                break
        seen.append(sorted(indices))
        indices.clear()
    # Each index occurs twice, once per side.
    assert sorted(seen[0] + seen[1]) == sorted([*range(len(store.part("train")))] * 2)
    assert not set(seen[0]) & set(seen[1])


# Weights.


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A genuine corpus, and a tagged one."""
    folder = tmp_path_factory.mktemp("mixture")
    prepare_corpora(folder / "store", ("", some_pairs(40)), ("<bt>", some_pairs(30, seed=9)))
    return Store(folder / "store")


def tags(store: Store, batches: Sequence[Batch]) -> list[bool]:
    return [source.startswith("<bt> ") for source, _ in decode_pairs(store, batches)]


def test_weights_of_one_equal_no_weights(mixture: Store) -> None:
    config = DataConfig(batch_tokens=BATCH_TOKENS, corpus_weights=(1.0, 1.0))
    for epoch in epochs(mixture, config, 2):
        assert sorted(decode_pairs(mixture, epoch)) == sorted(texts_of(mixture))


def test_corpora_are_read_by_weight(mixture: Store) -> None:
    second = len(mixture.part("train").corpora[1])
    for weights, expected in (((0.0, 2.0), (0, 2 * second)), ((3.0, 0.0), (120, 0))):
        config = DataConfig(batch_tokens=BATCH_TOKENS, corpus_weights=weights)
        for epoch in epochs(mixture, config, 2):
            tagged = tags(mixture, epoch)
            assert (tagged.count(False), tagged.count(True)) == expected


def test_fractional_weights_hold_on_average(mixture: Store) -> None:
    config = DataConfig(batch_tokens=BATCH_TOKENS, corpus_weights=(1.0, 0.5))
    halves = [tags(mixture, epoch).count(True) for epoch in epochs(mixture, config, 40)]
    size = len(mixture.part("train").corpora[1])
    assert len(set(halves)) > 1
    assert abs(sum(halves) / 40 - size / 2) < 4 * (size / 4 / 40) ** 0.5


@pytest.mark.parametrize("candidates", [1, 8])
def test_weighted_batches_resume_from_any_position(mixture: Store, candidates: int) -> None:
    config = DataConfig(
        batch_tokens=BATCH_TOKENS, corpus_weights=(1.5, 0.5), subword_nbest_size=candidates
    )
    whole = stream(mixture, config, Position(), 40)
    assert whole[-1][0].epoch >= 1
    for stop in (1, 17, 39):
        assert stream(mixture, config, whole[stop - 1][0], 40 - stop) == whole[stop:]


def test_subword_regularization_never_splits_tags(mixture: Store) -> None:
    [tag] = mixture.tokenizers.source.encode("<bt>")
    config = DataConfig(
        batch_tokens=BATCH_TOKENS,
        corpus_weights=(0.0, 1.0),
        subword_nbest_size=64,
        subword_temperature=99,
    )
    for epoch in epochs(mixture, config, 3):
        assert all(ids[0] == tag for batch in epoch for ids in split(batch.source))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0)])
def test_wrong_number_of_weights_names_the_corpora(
    mixture: Store, weights: tuple[float, ...]
) -> None:
    message = (
        rf"data.corpus_weights has {len(weights)} values, but the data has 2 corpora: .*"
        r"store-0\.en store-0\.de; store-1\.en store-1\.de <bt>\."
    )
    with pytest.raises(ConfigError, match=message):
        training_loader(mixture, DataConfig(corpus_weights=weights))


@pytest.mark.parametrize("weights", [(0.0, 0.0), (1e-9, 0.0)])
def test_weights_that_leave_no_pairs_are_rejected(
    mixture: Store, weights: tuple[float, ...]
) -> None:
    with pytest.raises(ConfigError, match=r"leaves .* pairs per epoch, of \d+\. Use larger"):
        training_loader(mixture, DataConfig(corpus_weights=weights))


def test_weights_have_bounds() -> None:
    with pytest.raises(
        ConfigError, match=r"data\.corpus_weights\[1\] is -1.0, but must be at least 0"
    ):
        build(DataConfig, {"corpus_weights": [1, -1]}, "data.")
    with pytest.raises(ConfigError, match=r"corpus_weights\[0\] is inf, but must be at most 1000"):
        DataConfig(corpus_weights=(float("inf"),))


# Validation.


def test_validation_has_every_pair_once(store: Store) -> None:
    batches = validation(store, BATCH_TOKENS)
    assert sorted(decode_pairs(store, batches)) == sorted(texts_of(store, "valid"))


def test_validation_batches_are_sorted_by_length(store: Store) -> None:
    batches = validation(store, BATCH_TOKENS)
    lengths = [n for batch in batches for n in batch.target.lengths.lengths.tolist()]
    assert lengths == sorted(lengths)
    assert len(batches) > 1
    for batch in batches:
        totals = batch.source.lengths.total, batch.target.lengths.total
        assert max(totals) <= BATCH_TOKENS or len(batch.source.lengths) == 1


def test_max_tokens_of_one_gives_batches_of_one_pair(store: Store) -> None:
    batches = validation(store, 1)
    assert [len(batch.source.lengths) for batch in batches] == [1] * 12

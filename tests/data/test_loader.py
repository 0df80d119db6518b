"""Batches of a prepared store: every pair, whole, with its end mark, and the same after a stop."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from data.corpora import mixed, prepared, some_pairs, texts_of
from regard.config import build
from regard.data.batch import Batch
from regard.data.doctor import DoctorConfig
from regard.data.loader import DataConfig, Loader, validation_batches
from regard.data.pairs import PairDataset, collate, with_ends
from regard.data.ragged import Ragged
from regard.data.rows import Sentences
from regard.data.sampling import Position, RankShard
from regard.data.store import Store
from regard.errors import ConfigError
from regard.text.special import SPECIAL

BUDGET = 60
PLAIN = DataConfig(batch_tokens=BUDGET)
SAMPLED = DataConfig(batch_tokens=BUDGET, sampling_candidates=8, sampling_temperature=20.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("loader")
    prepared(folder / "store", some_pairs(), some_pairs(12, seed=2), joint=False)
    return Store(folder / "store")


def split(row: Ragged) -> list[list[int]]:
    """The sentences of a row as lists."""
    return [piece.tolist() for piece in row.tokens.split(row.lengths.lengths.tolist())]


def read(store: Store, batches: Sequence[Batch]) -> list[tuple[str, str]]:
    """All pairs as text; the end marks give none."""
    return [
        (store.tokenizers.source.decode(source), store.tokenizers.target.decode(target))
        for batch in batches
        for source, target in zip(split(batch.source), split(batch.target), strict=True)
    ]


def loaded(
    store: Store, config: DataConfig, *, seed: int = 1, shard: RankShard | None = None
) -> Loader:
    """The training pairs of a store."""
    pairs = PairDataset.of(store, store.part("train"), config, seed)
    return Loader(pairs, config.batch_tokens, seed=seed, shard=shard)


def validated(store: Store, budget: int) -> list[Batch]:
    """The batches of a validation."""
    return list(validation_batches(PairDataset(store.part("valid")), budget))


def epochs(
    store: Store, config: DataConfig, count: int, *, seed: int = 1, start: Position | None = None
) -> list[list[Batch]]:
    """The batches of the next epochs."""
    found: list[list[Batch]] = [[]]
    for position, batch in loaded(store, config, seed=seed).batches(start or Position()):
        found[-1].append(batch)
        if position.batch == 0:
            if len(found) == count:
                break
            found.append([])
    return found


def stream(
    store: Store, config: DataConfig, position: Position, count: int
) -> list[tuple[Position, list[list[int]], list[list[int]]]]:
    """Batches from a position on, as lists."""
    batches = loaded(store, config, seed=5).batches(position)
    return [
        (after, split(batch.source), split(batch.target)) for after, batch in islice(batches, count)
    ]


# Rows.


def test_each_sentence_is_followed_by_its_end_mark() -> None:
    assert split(with_ends([[5, 6], [], [7]])) == [
        [5, 6, SPECIAL.end],
        [SPECIAL.end],
        [7, SPECIAL.end],
    ]


def test_a_batch_holds_the_pairs_of_its_indices(store: Store) -> None:
    part = store.part("train")
    batch = collate(part, [7, 3])
    for row, sentences in ((batch.source, part.source), (batch.target, part.target)):
        assert split(row) == [[*sentences[i].tolist(), SPECIAL.end] for i in (7, 3)]


# Training.


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_each_epoch_brings_every_pair_once(store: Store, config: DataConfig) -> None:
    for epoch in epochs(store, config, 3):
        assert sorted(read(store, epoch)) == sorted(texts_of(store))


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_every_sentence_ends_once(store: Store, config: DataConfig) -> None:
    for batch in epochs(store, config, 1)[0]:
        for sentence in [*split(batch.source), *split(batch.target)]:
            assert sentence.index(SPECIAL.end) == len(sentence) - 1


@pytest.mark.parametrize("pair", [("a", "b b"), ("b b", "a")])
def test_batches_keep_the_budget_with_end_marks_counted(
    tmp_path: Path, pair: tuple[str, str]
) -> None:
    rules = DoctorConfig(skip_duplicates=False)
    prepared(tmp_path / "store", [pair] * 50, rules=rules, kind="word")
    # The longer side has three tokens a sentence.
    [epoch] = epochs(Store(tmp_path / "store"), DataConfig(batch_tokens=15), 1)
    assert [len(batch.source.lengths) for batch in epoch] == [5] * 10


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_a_stop_anywhere_changes_nothing(store: Store, config: DataConfig) -> None:
    length = len(epochs(store, config, 1, seed=5)[0])
    whole = stream(store, config, Position(), 2 * length)
    for stop in (1, length - 1, length, length + 1):
        rest = stream(store, config, whole[stop - 1][0], 2 * length - stop)
        assert rest == whole[stop:]


def test_epochs_and_seeds_differ_in_their_order(store: Store) -> None:
    first, second = epochs(store, PLAIN, 2)
    [other] = epochs(store, PLAIN, 1, seed=2)
    orders = [tuple(read(store, epoch)) for epoch in (first, second, other)]
    assert len(set(orders)) == 3


def test_without_sampling_every_epoch_has_the_stored_ids(store: Store) -> None:
    part = store.part("train")
    wanted = sorted([*part.source[i].tolist(), SPECIAL.end] for i in range(len(part)))
    for epoch in epochs(store, PLAIN, 2):
        assert sorted(sentence for batch in epoch for sentence in split(batch.source)) == wanted


def test_sampling_cuts_sentences_anew_in_each_epoch(store: Store) -> None:
    cuts: dict[str, set[tuple[int, ...]]] = {}
    for epoch in epochs(store, SAMPLED, 6):
        for batch in epoch:
            for ids in split(batch.target):
                cuts.setdefault(store.tokenizers.target.decode(ids), set()).add(tuple(ids))
    several = [text for text, found in cuts.items() if len(found) > 1]
    assert len(several) > len(cuts) / 2


def test_a_sampled_cut_depends_on_seed_epoch_and_sentence_and_not_on_its_batch(
    store: Store,
) -> None:
    other = DataConfig(batch_tokens=200, sampling_candidates=8, sampling_temperature=20.0)
    small, large = (
        sorted(
            pair
            for batch in epochs(store, config, 1)[0]
            for pair in zip(split(batch.source), split(batch.target), strict=True)
        )
        for config in (SAMPLED, other)
    )
    assert small == large


def test_each_copy_of_a_sentence_is_cut_by_itself(tmp_path: Path) -> None:
    pairs = [*some_pairs(), *[some_pairs()[0]] * 40]
    prepared(tmp_path / "store", pairs, rules=DoctorConfig(skip_duplicates=False))
    store = Store(tmp_path / "store")
    cuts = {
        tuple(ids)
        for batch in epochs(store, SAMPLED, 1)[0]
        for ids in split(batch.source)
        if store.tokenizers.source.decode(ids) == pairs[0][0]
    }
    assert len(cuts) > 1


@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_sampling_needs_a_unigram_tokenizer(tmp_path: Path, kind: str) -> None:
    prepared(tmp_path / "store", some_pairs(), kind=kind)
    with pytest.raises(ConfigError, match=f"data.sampling_candidates .* this store's is {kind}"):
        loaded(Store(tmp_path / "store"), SAMPLED)


# Shards.


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
@pytest.mark.parametrize("processes", [2, 3, 40])
def test_shards_together_are_the_batches_of_one_process(
    store: Store, config: DataConfig, processes: int
) -> None:
    whole = islice(loaded(store, config, seed=5).batches(Position(0, 3)), 12)
    shards = [
        loaded(store, config, seed=5, shard=RankShard(number, processes)).batches(Position(0, 3))
        for number in range(processes)
    ]
    for (after, batch), *parts in zip(whole, *shards, strict=False):
        assert all(position == after for position, _ in parts)
        assert sum(part.target_tokens for _, part in parts) == batch.target_tokens
        found = [
            pair
            for _, part in parts
            if part.target_tokens
            for pair in zip(split(part.source), split(part.target), strict=True)
        ]
        wanted = zip(split(batch.source), split(batch.target), strict=True)
        assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("config", [PLAIN, SAMPLED])
def test_a_process_reads_its_own_sentences_only(
    store: Store, config: DataConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    get = Sentences.__getitem__

    def noted(sentences: Sentences, index: int) -> Any:
        read.append(index)
        return get(sentences, index)

    monkeypatch.setattr(Sentences, "__getitem__", noted)
    seen = []
    for number in range(2):
        for after, _ in loaded(store, config, shard=RankShard(number, 2)).batches(Position()):
            if after.epoch:
                break
        seen.append(sorted(read))
        read.clear()
    # Twice, since there are two sides.
    assert sorted(seen[0] + seen[1]) == sorted([*range(len(store.part("train")))] * 2)
    assert not set(seen[0]) & set(seen[1])


# Weights.


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A genuine corpus, and a tagged one."""
    folder = tmp_path_factory.mktemp("mixture")
    mixed(folder / "store", ("", some_pairs(40)), ("<bt>", some_pairs(30, seed=9)))
    return Store(folder / "store")


def tags(store: Store, batches: Sequence[Batch]) -> list[bool]:
    return [source.startswith("<bt> ") for source, _ in read(store, batches)]


def test_weights_of_one_read_what_no_weights_read(mixture: Store) -> None:
    config = DataConfig(batch_tokens=BUDGET, weights=(1.0, 1.0))
    for epoch in epochs(mixture, config, 2):
        assert sorted(read(mixture, epoch)) == sorted(texts_of(mixture))


def test_each_corpus_is_read_by_its_weight(mixture: Store) -> None:
    second = len(mixture.part("train").corpora[1])
    for weights, wanted in (((0.0, 2.0), (0, 2 * second)), ((3.0, 0.0), (120, 0))):
        config = DataConfig(batch_tokens=BUDGET, weights=weights)
        for epoch in epochs(mixture, config, 2):
            found = tags(mixture, epoch)
            assert (found.count(False), found.count(True)) == wanted


def test_half_of_a_corpus_is_read_in_the_mean(mixture: Store) -> None:
    config = DataConfig(batch_tokens=BUDGET, weights=(1.0, 0.5))
    halves = [tags(mixture, epoch).count(True) for epoch in epochs(mixture, config, 40)]
    size = len(mixture.part("train").corpora[1])
    assert len(set(halves)) > 1
    assert abs(sum(halves) / 40 - size / 2) < 4 * (size / 4 / 40) ** 0.5


@pytest.mark.parametrize("candidates", [1, 8])
def test_a_stop_anywhere_changes_nothing_with_weights(mixture: Store, candidates: int) -> None:
    config = DataConfig(batch_tokens=BUDGET, weights=(1.5, 0.5), sampling_candidates=candidates)
    whole = stream(mixture, config, Position(), 40)
    assert whole[-1][0].epoch >= 1
    for stop in (1, 17, 39):
        assert stream(mixture, config, whole[stop - 1][0], 40 - stop) == whole[stop:]


def test_sampling_leaves_tags_whole(mixture: Store) -> None:
    [tag] = mixture.tokenizers.source.encode("<bt>")
    config = DataConfig(
        batch_tokens=BUDGET, weights=(0.0, 1.0), sampling_candidates=64, sampling_temperature=99
    )
    for epoch in epochs(mixture, config, 3):
        assert all(ids[0] == tag for batch in epoch for ids in split(batch.source))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0)])
def test_a_wrong_number_of_weights_names_the_corpora(
    mixture: Store, weights: tuple[float, ...]
) -> None:
    wanted = (
        rf"data.weights has {len(weights)} numbers, and 2 are needed, .*"
        r"store-0\.en store-0\.de; store-1\.en store-1\.de <bt>\."
    )
    with pytest.raises(ConfigError, match=wanted):
        loaded(mixture, DataConfig(weights=weights))


@pytest.mark.parametrize("weights", [(0.0, 0.0), (1e-9, 0.0)])
def test_weights_that_leave_nothing_are_refused(mixture: Store, weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"leaves .* pairs an epoch, of \d+\. Use larger"):
        loaded(mixture, DataConfig(weights=weights))


def test_weights_have_bounds() -> None:
    with pytest.raises(ConfigError, match=r"data\.weights\[1\] is -1.0, and must be at least 0"):
        build(DataConfig, {"weights": [1, -1]}, "data.")
    with pytest.raises(ConfigError, match=r"weights\[0\] is inf, and must be at most 1000"):
        DataConfig(weights=(float("inf"),))


# Validation.


def test_validation_brings_every_pair_once(store: Store) -> None:
    batches = validated(store, BUDGET)
    assert sorted(read(store, batches)) == sorted(texts_of(store, "valid"))


def test_validation_goes_from_short_to_long_within_the_budget(store: Store) -> None:
    batches = validated(store, BUDGET)
    lengths = [n for batch in batches for n in batch.target.lengths.lengths.tolist()]
    assert lengths == sorted(lengths)
    assert len(batches) > 1
    for batch in batches:
        totals = batch.source.lengths.total, batch.target.lengths.total
        assert max(totals) <= BUDGET or len(batch.source.lengths) == 1


def test_a_budget_of_one_token_gives_batches_of_one_pair(store: Store) -> None:
    batches = validated(store, 1)
    assert [len(batch.source.lengths) for batch in batches] == [1] * 12

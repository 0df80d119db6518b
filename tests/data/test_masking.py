"""What is hidden from a masked language model: how much, how, and always the same."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.config import build
from regard.data.ahead import ahead
from regard.data.loader import DataConfig
from regard.data.masking import Masker, MaskingConfig
from regard.data.prepare_text import prepare_text
from regard.data.sampling import Position
from regard.data.store import Store
from regard.data.text_loader import TextLoader, text_in_order
from regard.data.text_rows import TextTask
from regard.errors import ConfigError
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import write_text_store

MASK = SPECIAL.unknown
TASK = TextTask("masked", 12)
DOUBLES = TextTask("masked", 12, doubles=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that cuts most words."""
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "text").write_text("banana bandana ananas\nnana anna\n" * 9)
    config = TokenizerConfig(kind="char", vocab_size=300)
    prepare_text({"train": [folder / "text"]}, folder / "out", tokenizer=config)
    return Store(folder / "out").tokenizers.source


def test_shares(store: Store) -> None:
    config = build(MaskingConfig, {"share": 0.2, "masked": 0.6, "replaced": 0.3})
    size = store.tokenizers.source.vocab_size
    ids = np.random.default_rng(0).integers(4, size, 40000)
    read, wanted = Masker(store.tokenizers.source, config, MASK).hide(ids, np.random.default_rng(1))
    hidden = wanted != SPECIAL.pad
    assert (wanted[hidden] == ids[hidden]).all()
    assert (read[~hidden] == ids[~hidden]).all()
    assert hidden.mean() == pytest.approx(0.2, abs=0.01)
    assert (read[hidden] == MASK).mean() == pytest.approx(0.6, abs=0.02)
    kept = (read[hidden] == ids[hidden]).mean()
    assert kept == pytest.approx(0.1 + 0.3 / size, abs=0.02)
    others = read[hidden & (read != MASK) & (read != ids)]
    assert others.min() >= 4
    assert len(others) / hidden.sum() == pytest.approx(0.3, abs=0.02)


def test_marks_are_never_hidden_and_something_always_is(store: Store) -> None:
    masker = Masker(store.tokenizers.source, MaskingConfig(), MASK)
    for seed in range(50):
        ids = np.array([SPECIAL.start, 270, 271, SPECIAL.end])
        _, wanted = masker.hide(ids, np.random.default_rng(seed))
        assert wanted[0] == wanted[-1] == SPECIAL.pad
        assert (wanted != SPECIAL.pad).any()


def test_whole_words(subwords: Tokenizer) -> None:
    text = "banana bandana\nananas nana " * 40 + "anna"
    ids = np.array([SPECIAL.start, *subwords.encode_lines(text), SPECIAL.end])
    pieces = subwords.pieces(ids.tolist())
    config = MaskingConfig(whole_words=True, share=0.3)
    _, wanted = Masker(subwords, config, MASK).hide(ids, np.random.default_rng(2))
    hidden = wanted != SPECIAL.pad
    words: list[list[bool]] = []
    for piece, one in zip(pieces[1:-1], hidden[1:-1], strict=True):
        if piece.startswith("▁") or piece == "<0x0A>" or words[-1] is None:
            words.append([])
        words[-1].append(bool(one))
    assert all(len(set(word)) == 1 for word in words)
    assert 0.2 < np.mean([word[0] for word in words]) < 0.4
    single = MaskingConfig(share=0.3)
    _, wanted = Masker(subwords, single, MASK).hide(ids, np.random.default_rng(2))
    assert (np.diff((wanted != SPECIAL.pad).astype(int)) != 0).sum() > 300  # here and there


def rows(store: Store, task: TextTask, seed: int = 1, **masking: Any) -> Any:
    """What is read and wanted in the batches of three epochs, by epoch, row after row."""
    config = build(DataConfig, {"batch_tokens": 60, "masking": masking})
    found: dict[int, list[tuple[list[int], list[int]]]] = {0: [], 1: [], 2: []}
    epoch = 0
    placed = TextLoader(store, config, task, seed=seed).batches(Position())
    while epoch < 3:
        after, batch = next(placed)
        sizes = batch.source.lengths.lengths.tolist()
        read, wanted = (side.tokens.split(sizes) for side in batch.sides)
        found[epoch] += [(a.tolist(), b.tolist()) for a, b in zip(read, wanted, strict=True)]
        assert batch.target_tokens == int((batch.target.tokens != SPECIAL.pad).sum())
        epoch = after.epoch
    return found


def test_dynamic_and_static(store: Store) -> None:
    changing, fixed = rows(store, TASK), rows(store, TASK, dynamic=False)
    assert sorted(fixed[0]) == sorted(fixed[1]) == sorted(fixed[2])
    assert sorted(changing[0]) != sorted(changing[1])
    assert changing == rows(store, TASK)
    assert changing != rows(store, TASK, seed=2)


def test_rows_are_framed(store: Store) -> None:
    lengths = []
    for read, wanted in rows(store, TASK)[0]:
        assert read[0] == SPECIAL.start
        assert read[-1] == SPECIAL.end
        assert SPECIAL.end not in read[:-1]
        assert len(read) == len(wanted) <= 12
        lengths.append(len(read) - 2)
    text = store.text("train").documents
    assert sum(lengths) == text.lengths().sum() - len(text)


def test_doubles(store: Store) -> None:
    config = DataConfig(batch_tokens=60)
    ids = store.text("train").documents.flat().tolist()
    told = set(pairwise(ids))
    strange = together = 0
    for _, batch in islice(TextLoader(store, config, DOUBLES, seed=1).batches(Position()), 60):
        assert batch.doubles is not None
        sizes = batch.source.lengths.lengths.tolist()
        assert max(sizes) <= 12
        originals = batch.source.tokens.where(batch.target.tokens == 0, batch.target.tokens)
        parts = originals.split(sizes), batch.doubles.segments.split(sizes)
        for row, segments, stranger in zip(*parts, batch.doubles.strange.tolist(), strict=True):
            ends = (row == SPECIAL.end).nonzero().flatten().tolist()
            assert ends[-1] == len(row) - 1
            assert segments.tolist() == [int(place > ends[0]) for place in range(len(row))]
            strange += stranger
            together += not stranger
            if len(ends) == 2 and not stranger:
                assert (int(row[ends[0] - 1]), int(row[ends[0] + 1])) in told
    assert 0.35 < strange / (strange + together) < 0.6


def test_workers_send_everything(store: Store) -> None:
    def some(workers: int) -> list[Any]:
        loader = TextLoader(store, DataConfig(batch_tokens=60), DOUBLES, seed=1)
        return [
            [batch.filler]
            + [side.tokens.tolist() for side in batch.sides]
            + [batch.doubles.segments.tolist(), batch.doubles.strange.tolist()]
            for _, batch in islice(ahead(loader, Position(), workers), 10)
            if batch.doubles
        ]

    assert some(2) == some(0)
    assert len(some(0)) == 10


def test_validation_is_the_same_each_time(store: Store) -> None:
    def once() -> list[list[int]]:
        config = DataConfig(batch_tokens=60)
        return [batch.source.tokens.tolist() for batch in text_in_order(store, config, TASK)]

    assert once() == once()


def test_shares_of_more_than_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exceed 1"):
        build(MaskingConfig, {"masked": 0.8, "replaced": 0.3})

"""A shortlist allows what it says, and can be read back as subwords."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from data.corpora import prepared, some_pairs
from regard.data.lexicon import Ids, likeliest
from regard.data.shortlist import SHORTLIST, Shortlist, coverage, frequent, shortlist
from regard.data.store import Store
from regard.errors import ModelError
from regard.exchange.ctranslate2_files import VMAP, write_vmap
from regard.text.special import SPECIAL


@pytest.fixture(scope="module", params=[True, False], ids=["joint", "separate"])
def store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Store:
    folder = tmp_path_factory.mktemp("store") / "store"
    prepared(folder, some_pairs(60), some_pairs(20, seed=3), joint=request.param)
    return Store(folder)


def sizes(store: Store) -> tuple[int, int]:
    return store.tokenizers.source.vocab_size, store.tokenizers.target.vocab_size


def made(store: Store, count: int = 3, often: int = 5) -> Shortlist:
    always = frequent(store.part("train"), sizes(store)[1], often)
    table = likeliest(store.part("train"), sizes(store), count=count, without=always)
    return shortlist(always, table, store.tokenizers)


def target_ids(store: Store, text: str) -> Ids:
    return np.array(store.tokenizers.target.encode(text))


def source_ids(store: Store, text: str) -> Ids:
    return np.array(store.tokenizers.source.encode(text))


def test_the_frequent_ones_are_the_most_frequent(store: Store) -> None:
    flat = store.part("train").target.flat()
    often = frequent(store.part("train"), sizes(store)[1], 5)
    times = np.bincount(flat, minlength=sizes(store)[1])
    others = np.setdiff1d(np.arange(sizes(store)[1]), often)
    assert len(often) == 6
    assert SPECIAL.end in often
    assert min(times[i] for i in often if i != SPECIAL.end) >= times[others].max()


def test_what_never_occurs_is_not_frequent(store: Store) -> None:
    often = frequent(store.part("train"), sizes(store)[1], 10**6)
    assert set(often) == {*store.part("train").target.flat().tolist(), SPECIAL.end}


def test_a_batch_allows_what_its_words_allow(store: Store) -> None:
    listed = made(store)
    one, two = source_ids(store, "a dog sees"), source_ids(store, "the house")
    expected = {*listed.always.tolist()}
    for source in [*one, *two]:
        expected |= {*listed.rows[source].tolist()}
    allowed = listed.allowed([one, two])
    assert allowed.tolist() == sorted(expected)
    assert set(listed.allowed([one])) <= expected


def test_each_word_allows_its_likeliest_and_its_copy(store: Store) -> None:
    listed, names = made(store), store.tokenizers.source.pieces(range(sizes(store)[0]))
    targets = store.tokenizers.target.pieces(range(sizes(store)[1]))
    for name, row in zip(names, listed.rows, strict=True):
        pieces = [targets[i] for i in row]
        assert len(set(pieces)) == len(pieces) <= 4
        assert (name in pieces) == (name in targets)


def test_words_allow_their_translations(store: Store) -> None:
    listed = made(store, count=10)
    for word, translation in (("dog", "Hund"), ("house", "Haus")):
        allowed = listed.allowed([source_ids(store, word)])
        assert np.isin(target_ids(store, translation), allowed).all()


def test_coverage_is_counted(store: Store) -> None:
    listed, part = made(store), store.part("valid")
    found = coverage(listed, part, batch_size=8)
    allowed = [set(listed.allowed([part.source[i]]).tolist()) for i in range(len(part))]
    tokens = [(i, token) for i in range(len(part)) for token in part.target[i].tolist()]
    assert found.covered == sum(token in allowed[i] for i, token in tokens) / len(tokens)
    assert found.sentence == np.mean([len(own) for own in allowed])
    assert found.sentence <= found.batch <= sizes(store)[1]
    assert coverage(listed, part, batch_size=1).batch == found.sentence


def test_more_words_cover_more(store: Store) -> None:
    part = store.part("valid")
    covered = [coverage(made(store, k), part, batch_size=8).covered for k in (1, 3, 10, 300)]
    assert covered == sorted(covered)
    assert covered[-1] > 0.95


def test_it_is_read_as_it_was_written(store: Store, tmp_path: Path) -> None:
    listed = made(store)
    listed.write(tmp_path, store.tokenizers)
    again = Shortlist.read(tmp_path, store.tokenizers)
    assert again.always.tolist() == listed.always.tolist()
    assert [row.tolist() for row in again.rows] == [row.tolist() for row in listed.rows]
    assert json.loads((tmp_path / SHORTLIST).read_text(encoding="utf-8"))["format"] == 1


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "always": ["no such"], "allowed": {}}']
)
def test_a_damaged_file_is_named(store: Store, tmp_path: Path, text: str) -> None:
    (tmp_path / SHORTLIST).write_text(text)
    with pytest.raises(ModelError, match=r"shortlist\.json (is damaged|has format)"):
        Shortlist.read(tmp_path, store.tokenizers)


def test_ctranslate2_gets_a_line_for_each_word(store: Store, tmp_path: Path) -> None:
    listed = made(store)
    write_vmap(listed, store.tokenizers, tmp_path)
    lines = (tmp_path / VMAP).read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    rows = {key: values.split(" ") for key, values in (line.split("\t") for line in lines)}
    both = store.tokenizers
    assert rows[""] == both.target.pieces(listed.always.tolist())
    for source, row in enumerate(listed.rows):
        [name] = both.source.pieces([source])
        assert rows.get(name, []) == both.target.pieces(row.tolist())


def test_ctranslate2_gets_no_white_space(tmp_path: Path) -> None:
    pairs = [(f"{a}\tx\u3000y", f"{b}\tx\u3000y") for a, b in some_pairs(20)]
    prepared(tmp_path / "store", pairs, vocab_size=300)
    store = Store(tmp_path / "store")
    pieces = store.tokenizers.target.pieces(range(sizes(store)[1]))
    assert any("\u3000" in piece for piece in pieces)
    write_vmap(made(store), store.tokenizers, tmp_path)
    for line in (tmp_path / VMAP).read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        assert "\u3000" not in line
        assert line.count("\t") == 1
        assert "" not in line.split("\t")[1].split(" ")

"""Shortlists: allowed subwords, coverage and files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from data.corpora import prepare_pairs, some_pairs
from regard.data.lexicon import Ids, most_likely_targets
from regard.data.shortlist import (
    SHORTLIST,
    Shortlist,
    build_shortlist,
    compute_coverage,
    most_frequent_targets,
)
from regard.data.store import Store
from regard.errors import ModelError
from regard.exchange.ctranslate2_files import VMAP, write_vmap
from regard.text.special import SPECIAL


@pytest.fixture(scope="module", params=[True, False], ids=["joint", "separate"])
def store(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Store:
    folder = tmp_path_factory.mktemp("store") / "store"
    prepare_pairs(folder, some_pairs(60), some_pairs(20, seed=3), joint=request.param)
    return Store(folder)


def sizes(store: Store) -> tuple[int, int]:
    return store.tokenizers.source.vocab_size, store.tokenizers.target.vocab_size


def make_shortlist(store: Store, count: int = 3, frequent: int = 5) -> Shortlist:
    always = most_frequent_targets(store.part("train"), sizes(store)[1], frequent)
    table = most_likely_targets(store.part("train"), sizes(store), count=count, excluded=always)
    return build_shortlist(always, table, store.tokenizers)


def target_ids(store: Store, text: str) -> Ids:
    return np.array(store.tokenizers.target.encode(text))


def source_ids(store: Store, text: str) -> Ids:
    return np.array(store.tokenizers.source.encode(text))


def test_most_frequent_targets(store: Store) -> None:
    flat = store.part("train").target.flat()
    frequent = most_frequent_targets(store.part("train"), sizes(store)[1], 5)
    times = np.bincount(flat, minlength=sizes(store)[1])
    others = np.setdiff1d(np.arange(sizes(store)[1]), frequent)
    assert len(frequent) == 6
    assert SPECIAL.eos in frequent
    assert min(times[i] for i in frequent if i != SPECIAL.eos) >= times[others].max()


def test_unseen_targets_are_not_frequent(store: Store) -> None:
    frequent = most_frequent_targets(store.part("train"), sizes(store)[1], 10**6)
    assert set(frequent) == {*store.part("train").target.flat().tolist(), SPECIAL.eos}


def test_batch_allows_the_union_of_its_subwords(store: Store) -> None:
    shortlist = make_shortlist(store)
    first, second = source_ids(store, "a dog sees"), source_ids(store, "the house")
    expected = {*shortlist.always.tolist()}
    for source in [*first, *second]:
        expected |= {*shortlist.rows[source].tolist()}
    allowed = shortlist.allowed([first, second])
    assert allowed.tolist() == sorted(expected)
    assert set(shortlist.allowed([first])) <= expected


def test_subwords_allow_translations_and_their_copy(store: Store) -> None:
    shortlist, names = (
        make_shortlist(store),
        store.tokenizers.source.ids_to_tokens(range(sizes(store)[0])),
    )
    targets = store.tokenizers.target.ids_to_tokens(range(sizes(store)[1]))
    for name, row in zip(names, shortlist.rows, strict=True):
        subwords = [targets[i] for i in row]
        assert len(set(subwords)) == len(subwords) <= 4
        assert (name in subwords) == (name in targets)


def test_words_allow_their_translations(store: Store) -> None:
    shortlist = make_shortlist(store, count=10)
    for word, translation in (("dog", "Hund"), ("house", "Haus")):
        allowed = shortlist.allowed([source_ids(store, word)])
        assert np.isin(target_ids(store, translation), allowed).all()


def test_coverage(store: Store) -> None:
    shortlist, part = make_shortlist(store), store.part("valid")
    coverage = compute_coverage(shortlist, part, batch_size=8)
    allowed = [set(shortlist.allowed([part.source[i]]).tolist()) for i in range(len(part))]
    tokens = [(i, token) for i in range(len(part)) for token in part.target[i].tolist()]
    assert coverage.covered == sum(token in allowed[i] for i, token in tokens) / len(tokens)
    assert coverage.sentence == np.mean([len(ids) for ids in allowed])
    assert coverage.sentence <= coverage.batch <= sizes(store)[1]
    assert compute_coverage(shortlist, part, batch_size=1).batch == coverage.sentence


def test_coverage_grows_with_the_shortlist(store: Store) -> None:
    part = store.part("valid")
    covered = [
        compute_coverage(make_shortlist(store, k), part, batch_size=8).covered
        for k in (1, 3, 10, 300)
    ]
    assert covered == sorted(covered)
    assert covered[-1] > 0.95


def test_shortlist_round_trips(store: Store, tmp_path: Path) -> None:
    shortlist = make_shortlist(store)
    shortlist.write(tmp_path, store.tokenizers)
    again = Shortlist.read(tmp_path, store.tokenizers)
    assert again.always.tolist() == shortlist.always.tolist()
    assert [row.tolist() for row in again.rows] == [row.tolist() for row in shortlist.rows]
    assert json.loads((tmp_path / SHORTLIST).read_text(encoding="utf-8"))["format"] == 1


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "always": ["no such"], "allowed": {}}']
)
def test_damaged_file_is_named(store: Store, tmp_path: Path, text: str) -> None:
    (tmp_path / SHORTLIST).write_text(text)
    with pytest.raises(ModelError, match=r"shortlist\.json (is damaged|has format)"):
        Shortlist.read(tmp_path, store.tokenizers)


def test_ctranslate2_vmap_has_a_line_per_subword(store: Store, tmp_path: Path) -> None:
    shortlist = make_shortlist(store)
    write_vmap(shortlist, store.tokenizers, tmp_path)
    lines = (tmp_path / VMAP).read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    rows = {key: values.split(" ") for key, values in (line.split("\t") for line in lines)}
    both = store.tokenizers
    assert rows[""] == both.target.ids_to_tokens(shortlist.always.tolist())
    for source, row in enumerate(shortlist.rows):
        [name] = both.source.ids_to_tokens([source])
        assert rows.get(name, []) == both.target.ids_to_tokens(row.tolist())


def test_ctranslate2_vmap_has_no_whitespace(tmp_path: Path) -> None:
    pairs = [(f"{a}\tx\u3000y", f"{b}\tx\u3000y") for a, b in some_pairs(20)]
    prepare_pairs(tmp_path / "store", pairs, vocab_size=300)
    store = Store(tmp_path / "store")
    subwords = store.tokenizers.target.ids_to_tokens(range(sizes(store)[1]))
    assert any("\u3000" in subword for subword in subwords)
    write_vmap(make_shortlist(store), store.tokenizers, tmp_path)
    for line in (tmp_path / VMAP).read_text(encoding="utf-8").removesuffix("\n").split("\n"):
        assert "\u3000" not in line
        assert line.count("\t") == 1
        assert "" not in line.split("\t")[1].split(" ")

"""Prepared stores: reading, damaged files, corpora and fingerprints."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.corpora import prepare_corpora, prepare_pairs, some_pairs, texts_of
from regard.data.content import Corpus
from regard.data.rows import SideReader
from regard.data.store import SideWriter, Store
from regard.errors import DataError
from regard.regular_files import fingerprint

SENTENCES = [[5, 6, 7], [8], [9, 10], [11, 12, 13, 14]]


def write(folder: Path, sentences: list[list[int]], dtype: str = "uint16") -> SideWriter:
    with SideWriter(folder, "part.side", dtype) as writer:
        for sentence in sentences:
            writer.append(sentence)
    return writer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared folder that a test may damage."""
    prepare_pairs(tmp_path / "store", some_pairs(), some_pairs(5, seed=2))
    return tmp_path / "store"


# One side.


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@settings(deadline=None)
@given(st.data())
def test_sentences_round_trip(
    tmp_path_factory: pytest.TempPathFactory, dtype: str, data: st.DataObject
) -> None:
    ids = st.integers(0, np.iinfo(dtype).max)
    sentences = data.draw(st.lists(st.lists(ids), min_size=1).filter(any))
    folder = tmp_path_factory.mktemp("side")
    writer = write(folder, sentences, dtype)
    reader = SideReader(folder, "part.side", dtype)
    assert [reader[index].tolist() for index in range(len(reader))] == sentences
    assert reader.lengths().tolist() == [len(sentence) for sentence in sentences]
    assert writer.tokens == sum(map(len, sentences))
    assert writer.longest == max(map(len, sentences))


def test_sentences_are_memory_mapped(tmp_path: Path) -> None:
    write(tmp_path, SENTENCES)
    owner = SideReader(tmp_path, "part.side", "uint16")[2]
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    assert isinstance(owner, np.memmap)


def test_sentences_are_read_only(tmp_path: Path) -> None:
    write(tmp_path, SENTENCES)
    sentence = SideReader(tmp_path, "part.side", "uint16")[0]
    with pytest.raises(ValueError, match="read-only"):
        sentence[0] = 1


def test_ids_outside_the_dtype_are_rejected(tmp_path: Path) -> None:
    with (
        SideWriter(tmp_path, "part.side", "uint16") as writer,
        pytest.raises(DataError, match="cannot store a value"),
    ):
        writer.append([2**16])


@pytest.mark.parametrize("ending", ["ids", "offsets"])
@pytest.mark.parametrize("lost", [1, 2, 8, 10**6])
def test_truncated_file_is_rejected(tmp_path: Path, ending: str, lost: int) -> None:
    write(tmp_path, SENTENCES)
    path = tmp_path / f"part.side.{ending}"
    os.truncate(path, max(0, path.stat().st_size - lost))
    with pytest.raises(DataError, match=r"truncated.*Run `regard prepare` again") as caught:
        SideReader(tmp_path, "part.side", "uint16")
    assert str(caught.value).startswith(f"{path} is ")


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(index=st.integers(0, len(SENTENCES)), number=st.integers(-(2**63), 2**63 - 1))
def test_damaged_offsets_are_named(tmp_path: Path, index: int, number: int) -> None:
    write(tmp_path, SENTENCES)
    path = tmp_path / "part.side.offsets"
    offsets = np.fromfile(path, "int64")
    original = [*offsets]
    offsets[index] = number
    offsets.tofile(path)
    ascending = offsets[0] == 0 and all(a <= b for a, b in pairwise(offsets))
    if ascending and offsets[-1] == original[-1]:
        assert len(SideReader(tmp_path, "part.side", "uint16")) == len(SENTENCES)
        return
    too_far = ascending and offsets[-1] > original[-1]  # as if ids were missing
    with pytest.raises(DataError) as caught:
        SideReader(tmp_path, "part.side", "uint16")
    damaged = tmp_path / "part.side.ids" if too_far else path
    assert str(caught.value).startswith(f"{damaged} is ")


@pytest.mark.parametrize("ending", ["ids", "offsets"])
def test_missing_file_is_rejected(tmp_path: Path, ending: str) -> None:
    write(tmp_path, SENTENCES)
    (tmp_path / f"part.side.{ending}").unlink()
    with pytest.raises(DataError, match=rf"side\.{ending} is missing.*Run `regard prepare` again"):
        SideReader(tmp_path, "part.side", "uint16")


# A whole folder.


def test_store_has_its_parts(folder: Path) -> None:
    store = Store(folder)
    assert [store.has(name) for name in ("train", "valid", "test")] == [True, True, False]
    assert (len(store.part("train")), len(store.part("valid"))) == (60, 5)


def test_stored_ids_decode_to_the_text(folder: Path) -> None:
    store = Store(folder)
    assert texts_of(store) == some_pairs()
    assert texts_of(store, "valid") == some_pairs(5, seed=2)


def test_folder_without_store_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no store\.json.*regard prepare"):
        Store(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "\xff", '{"format": 1}'])
def test_damaged_description_is_rejected(folder: Path, content: str) -> None:
    (folder / "store.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=r"(?s)damaged.*Run `regard prepare` again") as caught:
        Store(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("version", [0, 2, None])
def test_other_format_versions_are_rejected(folder: Path, version: int | None) -> None:
    description = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**description, "format": version}))
    with pytest.raises(
        DataError, match=f"has format {version}; this version of regard reads format 1"
    ):
        Store(folder)


@pytest.mark.parametrize("content", [None, b"", b"no model"])
def test_missing_tokenizer_is_rejected(folder: Path, content: bytes | None) -> None:
    path = folder / "tokenizer.model"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.model .*Run `regard prepare` again"):
        Store(folder)


# Corpora.


def test_part_lists_its_corpora(tmp_path: Path) -> None:
    prepare_corpora(tmp_path / "store", ("", some_pairs(9)), ("<bt>", some_pairs(7, seed=2)))
    assert Store(tmp_path / "store").part("train").corpora == (
        Corpus("store-0.en", "store-0.de", "", 9),
        Corpus("store-1.en", "store-1.de", "<bt>", 7),
    )


def test_store_has_no_paths_of_the_text(folder: Path) -> None:
    assert str(folder.parent) not in (folder / "store.json").read_text()


def test_store_of_an_early_version_has_one_corpus(folder: Path) -> None:
    description = json.loads((folder / "store.json").read_text())
    for part in description["parts"].values():
        del part["corpora"]
    del description["checksum"]
    (folder / "store.json").write_text(json.dumps(description))
    store = Store(folder)
    assert store.part("train").corpora == (Corpus("", "", "", 60),)
    assert store.part("valid").corpora == (Corpus("", "", "", 5),)
    assert texts_of(store) == some_pairs()


def test_wrong_corpus_sizes_are_rejected(folder: Path) -> None:
    description = json.loads((folder / "store.json").read_text())
    description["parts"]["train"]["corpora"][0]["pairs"] = 59
    del description["checksum"]
    (folder / "store.json").write_text(json.dumps(description))
    with pytest.raises(DataError, match=r"have 59 pairs, and train has 60\. Run"):
        Store(folder).part("train")


# Fingerprints.


def test_fingerprint_depends_on_corpus_boundaries(tmp_path: Path) -> None:
    pairs = some_pairs(20)
    fingerprints = set()
    for size in (8, 12):
        prepare_corpora(tmp_path / f"{size}", ("", pairs[:size]), ("", pairs[size:]), kind="word")
        fingerprints.add(Store(tmp_path / f"{size}").fingerprint)
    assert len(fingerprints) == 2


def test_equal_content_has_equal_fingerprints(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "a" / "store", some_pairs())
    prepare_pairs(tmp_path / "b" / "store", some_pairs())
    assert (
        Store(tmp_path / "a" / "store").fingerprint == Store(tmp_path / "b" / "store").fingerprint
    )


def test_any_change_changes_the_fingerprint(tmp_path: Path) -> None:
    pairs, valid = some_pairs(), some_pairs(5, seed=2)
    first, second, *rest = pairs
    changes = [
        (pairs, valid, 320),
        (pairs, (), 320),
        (pairs, valid[1:], 320),
        (pairs, valid, 300),
        (pairs[1:], valid, 320),
        ([second, first, *rest], valid, 320),
        ([(first[0], second[1]), (second[0], first[1]), *rest], valid, 320),
    ]
    fingerprints = []
    for number, (train, other, size) in enumerate(changes):
        prepare_pairs(tmp_path / f"{number}" / "store", train, other, kind="bpe", vocab_size=size)
        fingerprints.append(Store(tmp_path / f"{number}" / "store").fingerprint)
    assert len(set(fingerprints)) == len(fingerprints)


def test_fingerprint_depends_on_the_tokenizer(tmp_path: Path) -> None:
    english = [("a b a", "c d c c"), ("b", "d c")]
    greek = [("α β α", "γ δ γ γ"), ("β", "δ γ")]
    for name, pairs in (("english", english), ("greek", greek)):
        prepare_pairs(tmp_path / name, pairs, kind="word")
    first, second = Store(tmp_path / "english"), Store(tmp_path / "greek")
    assert (
        first.description["parts"]["train"]["digest"]
        == (second.description["parts"]["train"]["digest"])
    )
    assert first.fingerprint != second.fingerprint


def test_digest_depends_on_sentence_boundaries(tmp_path: Path) -> None:
    digests = {
        write(tmp_path, sentences).digest
        for sentences in ([[5, 6], [7]], [[5], [6, 7]], [[5, 6, 7]], [[7], [5, 6]])
    }
    assert len(digests) == 4


@settings(deadline=None)
@given(st.lists(st.binary(max_size=8)), st.lists(st.binary(max_size=8)))
def test_fingerprints_are_equal_for_equal_contents_only(
    first: list[bytes], second: list[bytes]
) -> None:
    assert (fingerprint(first) == fingerprint(second)) == (first == second)


def test_fingerprint_depends_on_boundaries_of_contents() -> None:
    assert fingerprint([b"ab", b"c"]) != fingerprint([b"a", b"bc"])

"""Preparation of documents: contexts, boundaries, filters and lengths."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from document_corpora import Documents, joined, prepare_documents, toy_documents, write_files
from regard.config import build
from regard.data.document_context import NO_CONTEXT, SEPARATOR, DocumentContext
from regard.data.documents import pair_reader
from regard.data.filters import CorpusFilterConfig, Report
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.text.config import TokenizerConfig

DOCUMENTS: Documents = [
    [("a b", "x"), ("c", "y z"), ("d e", "x y"), ("f", "z")],
    [("g", "x x"), ("h i", "z z")],
]


def rows(store: Store, side: str, part: str = "train") -> list[list[str]]:
    """The texts of each row: the context, nearest last, and the sentence."""
    tokenizer = getattr(store.tokenizers, side)
    texts = []
    for index in range(len(store.part(part))):
        sentences: list[list[int]] = [[]]
        for token in getattr(store.part(part), side)[index].tolist():
            if token == SEPARATOR:
                sentences.append([])
            else:
                sentences[-1].append(token)
        texts.append([tokenizer.decode(ids) for ids in sentences])
    return texts


def test_rows_begin_with_the_previous_sentences_of_their_document(tmp_path: Path) -> None:
    result = prepare_documents(tmp_path, 2, 1, DOCUMENTS)
    store = Store(result.out)
    assert rows(store, "source") == [
        ["a b"], ["a b", "c"], ["a b", "c", "d e"], ["c", "d e", "f"], ["g"], ["g", "h i"],
    ]  # fmt: skip
    assert rows(store, "target") == [
        ["x"], ["x", "y z"], ["y z", "x y"], ["x y", "z"], ["x x"], ["x x", "z z"],
    ]  # fmt: skip
    assert store.document_context == DocumentContext(2, 1, longest_target=5)
    [report] = result.reports["train"]
    assert report.issues == {"blank: ends a document": (1, 5)}
    train = store.description["parts"]["train"]
    assert train["longest_source"] == 7  # "a b", "c", "d e" and two separators
    assert train["several_sentences"] == 0


def test_context_on_one_side(tmp_path: Path) -> None:
    store = Store(prepare_documents(tmp_path, 0, 2, DOCUMENTS).out)
    assert all(len(row) == 1 for row in rows(store, "source"))
    assert rows(store, "target")[3] == ["y z", "x y", "z"]


def test_store_without_context_is_unchanged(tmp_path: Path) -> None:
    """The files are those of the reader of sentence pairs, and have no field for context."""
    lines = [pair for document in toy_documents(60) for pair in document]
    files = {"train": [write_files(tmp_path, "train", [lines])]}
    tokenizer = build(TokenizerConfig, {"kind": "word", "vocab_size": 300})
    readers = (
        PairReader(files, CorpusFilterConfig()),
        pair_reader(files, CorpusFilterConfig(), NO_CONTEXT),
    )
    for number, reader in enumerate(readers):
        prepare(reader, tmp_path / str(number), tokenizer=tokenizer)
    for path in (tmp_path / "0").iterdir():
        assert path.read_bytes() == (tmp_path / "1" / path.name).read_bytes()
    assert "document_context" not in json.loads((tmp_path / "0" / "store.json").read_text())


def test_tokenizer_does_not_depend_on_the_context(tmp_path: Path) -> None:
    options: dict[str, Any] = {"tokenizer": "unigram", "skip_duplicates": False}
    results = [
        prepare_documents(tmp_path / name, *sizes, toy_documents(60), **options)
        for name, sizes in (("0", (0, 0)), ("1", (2, 1)))
    ]
    assert results[0].tokenizers == results[1].tokenizers


def test_documents_by_id(tmp_path: Path) -> None:
    """An id is the text before the first tab; blank lines also end a document."""
    lines = [[("a", "x"), ("b", "y"), ("c", "z"), ("", ""), ("d", "x y"), ("e", "x z")]]
    files = write_files(tmp_path, "train", lines)
    ids = tmp_path / "ids"
    ids.write_text("1\tfirst\n1\tsecond\n2\tthird\n2\t\n2\t\n2\t\n")
    reader = pair_reader(
        {"train": [replace(files, document_ids=ids)]}, CorpusFilterConfig(), DocumentContext(2)
    )
    config = build(TokenizerConfig, {"kind": "word", "vocab_size": 300})
    result = prepare(reader, tmp_path / "out", tokenizer=config)
    assert rows(Store(result.out), "source") == [["a"], ["a", "b"], ["c"], ["d"], ["d", "e"]]
    assert result.reports["train"][0].issues == {"blank: ends a document": (1, 4)}
    ids.write_text("1\n" * 5)
    again = reader.parts, CorpusFilterConfig(), DocumentContext(2)
    with pytest.raises(DataError, match=r"train.source has 6 lines and .*ids has 5: from line 6"):
        prepare(pair_reader(*again), tmp_path / "other", tokenizer=config)


def test_filtered_pairs_end_the_context(tmp_path: Path) -> None:
    """Sentences on both sides of a gap are not neighbours."""
    lines = [[("a", "x"), ("b", ""), ("c", "z"), ("d", "d"), ("e " * 9, "y"), ("f", "z z")]]
    files = {"train": [write_files(tmp_path, "train", lines)]}
    reader = pair_reader(files, CorpusFilterConfig(max_ratio=3), DocumentContext(3))
    reader.start("train")
    examples = [*reader.examples("train", files["train"][0], Report())]
    assert [(each.source, each.context) for each in examples] == [("a", ()), ("c", ()), ("f", ())]


def test_duplicates_are_those_in_the_same_context(tmp_path: Path) -> None:
    """A duplicate is skipped, but is the context of the next sentence."""
    documents: Documents = [
        [("a", "x"), ("b", "y")],
        [("a", "x"), ("b", "y"), ("a", "x")],
    ]
    result = prepare_documents(tmp_path, 1, 0, documents)
    assert rows(Store(result.out), "source") == [["a"], ["a", "b"], ["b", "a"]]
    assert result.reports["train"][0].issues["duplicate: skipped"] == (2, 4)
    kept = prepare_documents(tmp_path / "all", 1, 0, documents, skip_duplicates=False)
    assert len(Store(kept.out).part("train")) == 5


def test_context_is_shortened_to_the_maximum_length(tmp_path: Path) -> None:
    documents: Documents = [[("a b c", "x"), ("d e", "y"), ("f", "z"), ("g h i j k", "x y")]]
    result = prepare_documents(tmp_path, 3, 3, documents, max_tokens=5)
    store = Store(result.out)
    assert rows(store, "source") == [["a b c"], ["d e"], ["d e", "f"], ["g h i j k"]]
    assert rows(store, "target")[-1] == ["z", "x y"]
    shorter = prepare_documents(tmp_path / "4", 3, 3, documents, max_tokens=4)
    [report] = shorter.reports["train"]
    assert report.issues["too many subwords: skipped"] == (1, 4)


LINES = st.lists(st.sampled_from(["good", "bad", "blank"]), min_size=1, max_size=12)


@settings(max_examples=40)
@given(LINES, st.integers(1, 3))
def test_context_never_crosses_a_boundary_or_a_gap(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], size: int
) -> None:
    texts = {"good": "t{}", "bad": "", "blank": ""}
    lines = [
        ("" if kind == "blank" else f"s{number}", texts[kind].format(number))
        for number, kind in enumerate(kinds)
    ]
    files = {"train": [write_files(tmp_path_factory.mktemp("lines"), "train", [lines])]}
    reader = pair_reader(files, CorpusFilterConfig(), DocumentContext(size))
    reader.start("train")
    report = Report()
    for example in reader.examples("train", files["train"][0], report):
        number = int(example.source[1:])
        first = number
        while first and kinds[first - 1] == "good" and number - first < size:
            first -= 1
        assert example.context == tuple(lines[first:number])
    blank = report.issues.get("blank: ends a document", (0, 0))[0]
    assert blank == kinds.count("blank")


def test_both_directions_have_the_context_of_their_source(tmp_path: Path) -> None:
    files = write_files(tmp_path, "train", DOCUMENTS)
    store = regard.prepare(
        source=files.source, target=files.target, source_lang="en", target_lang="fr",
        both_directions=True, source_context=1, out=tmp_path / "out", tokenizer="word",
    )  # fmt: skip
    assert [row[-1] for row in rows(store, "source")[:2]] == ["<2fr> a b", "<2fr> c"]
    assert rows(store, "source")[1] == ["a b", "<2fr> c"]  # the tags are those of the sentence
    assert rows(store, "source")[7] == ["x", "<2en> y z"]
    assert max(each.longest_source for each in store.directions) == 6


def test_corpora_files_name_document_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, "train", [[("a b", "x"), ("c d", "y"), ("e f", "z")]])
    Path("ids").write_text("1\n2\n2\n")
    Path("corpora.toml").write_text(
        '[[train]]\nsource = "train.source"\ntarget = "train.target"\ndocument_ids = "ids"\n'
        'source_lang = "en"\ntarget_lang = "fr"\nboth_directions = true\n'
    )
    options: dict[str, Any] = {"corpora": "corpora.toml", "tokenizer": "word"}
    store = regard.prepare(**options, source_context=1, out="out")
    assert [len(row) for row in rows(store, "source")] == [1, 1, 2] * 2
    with pytest.raises(ConfigError, match="ids: document ids have no effect without document con"):
        regard.prepare(**options, out="other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"document_ids": ["ids", "ids"]}, "--document-ids 2 times: give one for each, or omit"),
        ({"document_ids": ["ids"]}, "--document-ids and --valid-document-ids must be given toge"),
        ({"valid_document_ids": "ids"}, "--document-ids and --valid-document-ids must be given t"),
        ({"source_context": 51}, "source_context is 51, but must be at most 50"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    files = write_files(tmp_path, "train", DOCUMENTS)
    paths = {"source": files.source, "target": files.target, "valid": (files.source, files.target)}
    with pytest.raises(ConfigError) as error:
        regard.prepare(**{"source_context": 1, **paths, **options}, out=tmp_path / "out")
    assert message in str(error.value)


def test_ids_without_context_are_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path, "train", DOCUMENTS)
    (tmp_path / "ids").write_text("1\n" * 7)
    with pytest.raises(
        ConfigError, match=r"no effect without document context. Set source_context"
    ):
        regard.prepare(
            source=files.source, target=files.target, document_ids=[tmp_path / "ids"],
            out=tmp_path / "out",
        )  # fmt: skip


def test_missing_ids_are_an_error(tmp_path: Path) -> None:
    files = write_files(tmp_path, "train", DOCUMENTS)
    corpus = Files(files.source, files.target, document_ids=tmp_path / "ids")
    reader = pair_reader({"train": [corpus]}, CorpusFilterConfig(), DocumentContext(1))
    with pytest.raises(DataError, match=r"There is no file .*ids"):
        prepare(reader, tmp_path / "out", tokenizer=TokenizerConfig())


def test_texts_of_documents_are_separated_by_blank_lines() -> None:
    assert joined(DOCUMENTS, 0) == "a b\nc\nd e\nf\n\ng\nh i\n"

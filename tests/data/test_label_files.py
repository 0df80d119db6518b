"""Preparation of labelled text: reports and stored content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from labelled import columns, tagged_sentences, write_tagged_store
from regard.config import build
from regard.data.filters import CorpusFilterConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import PrepareResult, prepare
from regard.data.store import Store
from regard.errors import DataError
from regard.text.config import TokenizerConfig


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


def prepared(folder: Path, content: str, **texts: str) -> PrepareResult:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return prepare(
        LabelReader(
            {name: [folder / name] for name in texts},
            LabelFormat("tagged" if content == "tagged" else "labelled"),
            CorpusFilterConfig(max_tokens=9, max_characters=60),
        ),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
    )


def test_tagged_store_has_labels_and_words(store: Store) -> None:
    assert store.content == "tagged"
    labels = store.description["vocabulary"]["labels"]
    assert labels == ["B-name", "B-place", "B-thing", "I-name", "I-place", "O"]
    part, tokenizer = store.labelled("train"), store.tokenizers.source
    sentences = tagged_sentences(300, seed=1)
    assert len(part) == len(sentences)
    for number in (0, 7, 299):
        assert [labels[i - 1] for i in part.labels[number]] == [tag for _, tag in sentences[number]]
        assert part.sizes[number].sum() == len(part.text[number])
        words = " ".join(word for word, _ in sentences[number])
        assert tokenizer.decode(part.text[number].tolist()) == words
    counts = store.description["parts"]["valid"]["counts"]
    assert sum(counts.values()) == sum(map(len, tagged_sentences(60, seed=2)))


def test_report_counts_issues(tmp_path: Path) -> None:
    train = "a\tX\nb\tY\n\na\tX\nb\tY\n\na\tY\nb\tY\n\n" + "a\tX\n" * 10 + "\n" + "c" * 70 + "\tX\n"
    valid = "a\tX\nb\tY\n\na\tZ\n\nd\tX\n"
    result = prepared(tmp_path, "tagged", train=train, valid=valid)
    (report,), (valid_report,) = result.reports["train"], result.reports["valid"]
    assert (report.pairs, report.kept) == (5, 3)
    assert report.issues == {
        "seen before: kept": (1, 4),
        "seen before, with another label: kept": (1, 7),
        "too many subwords: skipped": (1, 10),
        "too many characters: skipped": (1, 21),
    }
    assert valid_report.issues == {
        "also in the training text: kept": (1, 1),
        "the label Z is not in the training text: skipped": (1, 4),
    }
    assert result.description["vocabulary"]["labels"] == ["X", "Y"]


def test_iob1_is_converted_to_iob2(tmp_path: Path) -> None:
    result = prepared(tmp_path, "tagged", train="a\tI-x\nb\tI-x\nc\tO\nd\tI-y\n")
    part = Store(tmp_path / "prepared").labelled("train")
    labels = result.description["vocabulary"]["labels"]
    assert [labels[i - 1] for i in part.labels[0]] == ["B-x", "I-x", "O", "B-y"]
    assert "a span that begins with I-: made B-" in result.reports["train"][0].issues


@pytest.mark.parametrize(
    ("content", "train", "message"),
    [
        ("tagged", "a\tX\nb\n\nc\tX\nd\te\tf\n", "2 problems"),
        ("tagged", "a\tX\nb\tX\n", "nothing to learn"),
        ("tagged", "", "no sentence"),
        ("labelled", "1\ta\n0\tb\tc\n", "one text and others have two"),
        ("labelled", "1\n0\ttext\n", "line 1: has 1 columns"),
        ("labelled", "", "no example is left"),
    ],
)
def test_invalid_files_are_rejected(content: str, train: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, content, train=train)
    assert not (tmp_path / "prepared").exists()


def test_validation_set_without_remaining_examples_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the label Z is not in the training text: skipped: 1"):
        prepared(tmp_path, "tagged", train="a\tX\nb\tY\n", valid="a\tZ\n")
    assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("content", ["tagged", "labelled"])
def test_utf16_is_rejected(content: str, tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes("a\tX\nb\tY\n".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16"):
        prepare(
            LabelReader(
                {"train": [tmp_path / "train"]},
                LabelFormat("tagged" if content == "tagged" else "labelled"),
                CorpusFilterConfig(),
            ),
            tmp_path / "prepared",
            tokenizer=TokenizerConfig(),
        )


def test_conllu_words_without_label_are_skipped(tmp_path: Path) -> None:
    word = "1\t{0}\t_\t{1}\t_\t_\t_\t_\t_\t_\n\n"
    text = word.format("a", "X") + word.format("b", "_") + word.format("c", "Y")
    report = prepared(tmp_path, "tagged", train=text).reports["train"][0]
    assert report.issues == {"a word without a label: skipped": (1, 3)}


def test_gzip_files_equal_plain_files(tmp_path: Path) -> None:
    text = columns(tagged_sentences(20))
    plain = prepared(tmp_path, "tagged", train=text).description
    compressed = tmp_path / "compressed"
    compressed.mkdir()
    (compressed / "train").write_bytes(gzip.compress(text.encode()))
    from_gzip = prepare(
        LabelReader(
            {"train": [compressed / "train"]},
            LabelFormat("tagged"),
            CorpusFilterConfig(max_tokens=9, max_characters=60),
        ),
        compressed / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
    )
    assert from_gzip.description == plain

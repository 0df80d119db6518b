"""Labelled text, prepared: what the doctor tells, what the store holds."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from labelled import columns, tagged_sentences, write_tagged_store
from regard.config import build
from regard.data.doctor import DoctorConfig
from regard.data.label_files import LabelFormat, LabelReader
from regard.data.prepare import Prepared, prepare
from regard.data.store import Store
from regard.errors import DataError
from regard.text.config import TokenizerConfig


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


def prepared(folder: Path, content: str, **texts: str) -> Prepared:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return prepare(
        LabelReader(
            {name: [folder / name] for name in texts},
            LabelFormat("tagged" if content == "tagged" else "labelled"),
            DoctorConfig(max_tokens=9, max_characters=60),
        ),
        folder / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
    )


def test_a_store_says_what_it_holds(store: Store) -> None:
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


def test_what_the_doctor_tells(tmp_path: Path) -> None:
    train = "a\tX\nb\tY\n\na\tX\nb\tY\n\na\tY\nb\tY\n\n" + "a\tX\n" * 10 + "\n" + "c" * 70 + "\tX\n"
    valid = "a\tX\nb\tY\n\na\tZ\n\nd\tX\n"
    done = prepared(tmp_path, "tagged", train=train, valid=valid)
    (report,), (other,) = done.reports["train"], done.reports["valid"]
    assert (report.pairs, report.kept) == (5, 3)
    assert report.found == {
        "seen before: kept": (1, 4),
        "seen before, with another label: kept": (1, 7),
        "too many subwords: skipped": (1, 10),
        "too many characters: skipped": (1, 21),
    }
    assert other.found == {
        "also in the training text: kept": (1, 1),
        "the label Z is not in the training text: skipped": (1, 4),
    }
    assert done.description["vocabulary"]["labels"] == ["X", "Y"]


def test_spans_are_made_to_begin(tmp_path: Path) -> None:
    done = prepared(tmp_path, "tagged", train="a\tI-x\nb\tI-x\nc\tO\nd\tI-y\n")
    part = Store(tmp_path / "prepared").labelled("train")
    labels = done.description["vocabulary"]["labels"]
    assert [labels[i - 1] for i in part.labels[0]] == ["B-x", "I-x", "O", "B-y"]
    assert "a span that begins with I-: made B-" in done.reports["train"][0].found


@pytest.mark.parametrize(
    ("content", "train", "told"),
    [
        ("tagged", "a\tX\nb\n\nc\tX\nd\te\tf\n", "2 problems"),
        ("tagged", "a\tX\nb\tX\n", "nothing to learn"),
        ("tagged", "", "no sentence"),
        ("labelled", "1\ta\n0\tb\tc\n", "one text and some have two"),
        ("labelled", "1\n0\ttext\n", "line 1: has 1 columns"),
        ("labelled", "", "no text"),
    ],
)
def test_bad_files(content: str, train: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        prepared(tmp_path, content, train=train)
    assert not (tmp_path / "prepared").exists()


def test_a_validation_part_of_which_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the label Z is not in the training text: skipped: 1"):
        prepared(tmp_path, "tagged", train="a\tX\nb\tY\n", valid="a\tZ\n")
    assert not (tmp_path / "prepared").exists()


@pytest.mark.parametrize("content", ["tagged", "labelled"])
def test_what_is_no_text(content: str, tmp_path: Path) -> None:
    (tmp_path / "train").write_bytes("a\tX\nb\tY\n".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16"):
        prepare(
            LabelReader(
                {"train": [tmp_path / "train"]},
                LabelFormat("tagged" if content == "tagged" else "labelled"),
                DoctorConfig(),
            ),
            tmp_path / "prepared",
            tokenizer=TokenizerConfig(),
        )


def test_unlabelled_words_of_conllu(tmp_path: Path) -> None:
    word = "1\t{0}\t_\t{1}\t_\t_\t_\t_\t_\t_\n\n"
    text = word.format("a", "X") + word.format("b", "_") + word.format("c", "Y")
    report = prepared(tmp_path, "tagged", train=text).reports["train"][0]
    assert report.found == {"a word without a label: skipped": (1, 3)}


def test_gzip_is_the_same(tmp_path: Path) -> None:
    text = columns(tagged_sentences(20))
    plain = prepared(tmp_path, "tagged", train=text).description
    packed = tmp_path / "packed"
    packed.mkdir()
    (packed / "train").write_bytes(gzip.compress(text.encode()))
    found = prepare(
        LabelReader(
            {"train": [packed / "train"]},
            LabelFormat("tagged"),
            DoctorConfig(max_tokens=9, max_characters=60),
        ),
        packed / "prepared",
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
    )
    assert found.description == plain

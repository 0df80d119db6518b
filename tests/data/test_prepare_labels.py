"""Labelled text, prepared: what the doctor tells, what the store holds, what is in batches."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from labelled import columns, tagged_sentences, write_labelled_store, write_tagged_store
from regard.config import build
from regard.data.ahead import ahead
from regard.data.doctor import DoctorConfig
from regard.data.label_doctor import LabelFormat
from regard.data.label_rows import fitted, label_batch
from regard.data.label_store import labelled_part
from regard.data.loader import DataConfig
from regard.data.prepare import Prepared
from regard.data.prepare_labels import prepare_labels
from regard.data.sampling import Position
from regard.data.store import Store
from regard.data.text_loader import TextLoader, text_in_order
from regard.data.text_rows import TextTask
from regard.errors import ConfigError, DataError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL

TAGGED = TextTask("tagged", 64)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_tagged_store(tmp_path_factory.mktemp("tagged"))


def prepared(folder: Path, content: str, **texts: str) -> Prepared:
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return prepare_labels(
        {name: [folder / name] for name in texts},
        folder / "prepared",
        format=LabelFormat("tagged" if content == "tagged" else "labelled"),
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
        doctor=DoctorConfig(max_tokens=9, max_characters=60),
    )


def test_a_store_says_what_it_holds(store: Store) -> None:
    assert store.content == "tagged"
    labels = store.description["vocabulary"]["labels"]
    assert labels == ["B-name", "B-place", "B-thing", "I-name", "I-place", "O"]
    part, tokenizer = labelled_part(store, "train"), store.tokenizers.source
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
    part = labelled_part(Store(tmp_path / "prepared"), "train")
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
        prepare_labels(
            {"train": [tmp_path / "train"]},
            tmp_path / "prepared",
            format=LabelFormat("tagged" if content == "tagged" else "labelled"),
            tokenizer=TokenizerConfig(),
            doctor=DoctorConfig(),
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
    found = prepare_labels(
        {"train": [packed / "train"]},
        packed / "prepared",
        format=LabelFormat("tagged"),
        tokenizer=build(TokenizerConfig, {"kind": "word", "vocab_size": 300}),
        doctor=DoctorConfig(max_tokens=9, max_characters=60),
    )
    assert found.description == plain


def test_batches_of_words(store: Store) -> None:
    seen = 0
    for batch in text_in_order(store, DataConfig(batch_tokens=100), TAGGED):
        assert batch.words is not None
        rows = batch.source.lengths.lengths
        assert batch.words.total == int(rows.sum()) - 2 * len(rows)
        assert len(batch.words) == batch.target.lengths.total
        first = batch.source.tokens[batch.source.lengths.offsets[:-1].long()]
        assert (first == SPECIAL.start).all()
        assert int(batch.target.tokens.min()) >= 1
        assert batch.twice().words is not None
        seen += len(rows)
    assert seen == 60


def test_words_are_cut_anew_and_stay_words(store: Store) -> None:
    config = DataConfig(batch_tokens=200, sampling_candidates=8)
    loader = TextLoader(store, config, TAGGED, seed=1)
    plain = TextLoader(store, DataConfig(batch_tokens=200), TAGGED, seed=1)
    one, two = (next(each.batches(Position()))[1] for each in (loader, plain))
    assert one.words is not None
    assert two.words is not None
    assert one.target.tokens.tolist() == two.target.tokens.tolist()
    assert one.words.lengths.tolist() != two.words.lengths.tolist()
    texts = [store.tokenizers.source.decode(one.source.tokens.tolist()) for one in (one, two)]
    assert texts[0] == texts[1]


def test_workers_make_the_same_batches(store: Store) -> None:
    loader = TextLoader(store, DataConfig(batch_tokens=300), TAGGED, seed=1)
    here, there = ahead(loader, Position(), 0), ahead(loader, Position(), 1)
    for _ in range(3):
        (place, one), (other, two) = next(here), next(there)
        assert place == other
        assert one.words is not None
        assert two.words is not None
        assert one.words.lengths.tolist() == two.words.lengths.tolist()
        assert one.source.tokens.tolist() == two.source.tokens.tolist()


def test_a_sentence_that_no_model_could_read(store: Store) -> None:
    with pytest.raises(ConfigError, match=r"--max-tokens 4\."):
        TextLoader(store, DataConfig(), TextTask("tagged", 6), seed=1)


def test_rows_of_one_text_and_of_two(tmp_path: Path) -> None:
    store = write_labelled_store(tmp_path, pairs=True)
    task = TextTask("labelled", 64)
    batch = next(text_in_order(store, DataConfig(batch_tokens=60), task))
    ends = (batch.source.tokens == SPECIAL.end).long()
    assert batch.source.lengths.sums(ends).tolist() == [2] * len(batch.source.lengths)
    assert batch.target.lengths.lengths.tolist() == [1] * len(batch.source.lengths)
    assert batch.source.lengths.total <= 60
    short = label_batch([[[7, 8, 9], [4]], [[5]]], TextTask("labelled", 5))
    assert short.source.tokens.tolist() == [2, 7, 3, 4, 3, 2, 5, 3]


def test_the_longer_text_is_cut_first() -> None:
    assert fitted([[1] * 9, [2] * 3], 8) == [[1] * 5, [2] * 3]
    assert fitted([[1] * 9, [2] * 3], 4) == [[1] * 2, [2] * 2]
    assert fitted([[1, 2, 3]], 2) == [[1, 2]]
    assert fitted([[1], [2]], 2) == [[1], [2]]

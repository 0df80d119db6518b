"""`prepare`: from text files to a prepared folder, or an error and no folder."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pytest

from data.corpora import prepare_corpora, prepare_pairs, some_pairs, texts_of, write_pairs
from regard.data.filters import CorpusFilterConfig
from regard.data.pair_files import Files, PairReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError, DataError, RegardError, StorageError
from regard.text.config import TokenizerConfig

SMALL = TokenizerConfig(vocab_size=320)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Content of the store.


def test_store_has_the_pairs_in_order(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "out", some_pairs(), some_pairs(4, seed=2))
    store = Store(tmp_path / "out")
    assert texts_of(store) == some_pairs()
    assert texts_of(store, "valid") == some_pairs(4, seed=2)


def test_description_counts_pairs_and_tokens(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "out", some_pairs())
    store = Store(tmp_path / "out")
    part, described = store.part("train"), store.description["parts"]["train"]
    assert described["pairs"] == len(part) == 60
    for side, sentences in (("source", part.source), ("target", part.target)):
        assert described[f"{side}_tokens"] == sentences.lengths().sum()
        assert described[f"longest_{side}"] == sentences.lengths().max()


def test_fraction_of_multi_sentence_lines_is_stored(tmp_path: Path) -> None:
    pairs = [("One. Two.", "x"), ("One, two.", "y"), ("One", "z"), ("Two! One?", "w")]
    result = prepare_pairs(tmp_path / "out", pairs, kind="char")
    assert result.description["parts"]["train"]["several_sentences"] == 0.5


def test_languages_are_stored(tmp_path: Path) -> None:
    parts = {"train": [write_pairs(tmp_path, "train", some_pairs())]}
    for name, languages in (("a", ("en", "de")), ("b", (None, None))):
        prepare(
            PairReader(parts, CorpusFilterConfig()),
            tmp_path / name,
            tokenizer=SMALL,
            languages=languages,
        )
        source, target = languages
        assert Store(tmp_path / name).languages == {"source": source, "target": target}


def test_tokenizer_is_not_trained_on_validation_text(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "out", some_pairs(), [("猫", "Katze")], kind="char")
    assert "<0xE7>" in Store(tmp_path / "out").tokenizers.source.ids_to_tokens(
        Store(tmp_path / "out").part("valid").source[0].tolist()
    )


def test_validation_keeps_copies_and_duplicates(tmp_path: Path) -> None:
    odd = [("a dog", "a dog"), ("a", "ein"), ("a", "ein"), ("a", "ein Hund" * 9)]
    result = prepare_pairs(tmp_path / "out", [*some_pairs(), *odd], odd)
    assert texts_of(Store(tmp_path / "out"), "valid") == odd
    assert result.reports["valid"][0].issues == {"also in the training text": (2, 2)}
    assert texts_of(Store(tmp_path / "out")) == [*some_pairs(), odd[1]]


def test_pairs_with_too_many_subwords_are_skipped_and_counted(tmp_path: Path) -> None:
    pairs = [("abc", "abcd"), ("abcd", "abc"), ("abcde", "a"), ("b", "abcde")]
    filters = CorpusFilterConfig(max_tokens=5)  # the symbol before each text counts as one
    result = prepare_pairs(tmp_path / "out", pairs, pairs, filters=filters, kind="char")
    for name in ("train", "valid"):
        assert texts_of(Store(tmp_path / "out"), name) == pairs[:2]
        assert result.reports[name][0].issues["too many subwords: skipped"] == (2, 3)
        assert (result.reports[name][0].pairs, result.reports[name][0].kept) == (4, 2)
        assert result.description["parts"][name]["found"]["too many subwords: skipped"] == 2


def test_report_counts_each_pair_once(tmp_path: Path) -> None:
    pairs = [*some_pairs(), ("", "x"), ("same", "same"), some_pairs()[0]]
    report = prepare_pairs(tmp_path / "out", pairs).reports["train"][0]
    assert (report.pairs, report.kept) == (63, 60)
    assert {count for count, _ in report.issues.values()} == {1}
    assert len(report.issues) == 3


def test_progress_covers_both_passes_over_each_part(tmp_path: Path) -> None:
    progress: dict[str, list[int]] = {}
    parts = {
        "train": [write_pairs(tmp_path, "train", some_pairs())],
        "valid": [write_pairs(tmp_path, "valid", some_pairs(3))],
    }
    prepare(
        PairReader(parts, CorpusFilterConfig()),
        tmp_path / "out",
        tokenizer=SMALL,
        progress=lambda task, line: progress.setdefault(task, []).append(line),
    )
    assert progress == {
        "validating train": [*range(1, 61)],
        "validating valid": [1, 2, 3],
        "encoding train": [*range(1, 61)],
        "encoding valid": [1, 2, 3],
    }


# Several corpora.

GENUINE, SYNTHETIC = some_pairs(20), some_pairs(30, seed=2)
SYNTHETIC = [pair for pair in SYNTHETIC if pair not in GENUINE]


def test_corpora_are_stored_in_order(tmp_path: Path) -> None:
    result = prepare_corpora(tmp_path / "out", ("", GENUINE), ("", SYNTHETIC))
    assert texts_of(Store(tmp_path / "out")) == [*GENUINE, *SYNTHETIC]
    train = result.description["parts"]["train"]
    assert train["pairs"] == len(GENUINE) + len(SYNTHETIC)
    assert train["corpora"] == [
        {"source": "out-0.en", "target": "out-0.de", "tag": "", "pairs": len(GENUINE)},
        {"source": "out-1.en", "target": "out-1.de", "tag": "", "pairs": len(SYNTHETIC)},
    ]


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
@pytest.mark.parametrize("joint", [True, False])
def test_tag_is_added_to_its_corpus_only(tmp_path: Path, kind: str, joint: bool) -> None:
    prepare_corpora(tmp_path / "out", ("", GENUINE), ("<bt>", SYNTHETIC), kind=kind, joint=joint)
    store = Store(tmp_path / "out")
    part, source = store.part("train"), store.tokenizers.source
    [tag] = source.encode("<bt>")
    for index, (text, _) in enumerate([*GENUINE, *SYNTHETIC]):
        front = [tag] if index >= len(GENUINE) else []
        assert part.source[index].tolist() == [*front, *source.encode(text)]
        assert tag not in source.encode(text)
        assert not joint or tag not in part.target[index]


def test_tag_is_normalized(tmp_path: Path) -> None:
    prepare_corpora(tmp_path / "out", ("", GENUINE), ("<BT>", SYNTHETIC), lowercase=True)
    store = Store(tmp_path / "out")
    source, part = store.tokenizers.source, store.part("train")
    assert source.encode("<BT>") == source.encode("<bt>") == [int(part.source[len(part) - 1][0])]


def test_corpora_may_share_a_tag(tmp_path: Path) -> None:
    result = prepare_corpora(tmp_path / "out", ("<bt>", GENUINE), ("<bt>", SYNTHETIC))
    assert result.tokenizers.source.has_token("<bt>")
    assert texts_of(Store(tmp_path / "out"))[0][0] == f"<bt> {GENUINE[0][0]}"


def test_tokenizer_is_not_trained_on_tags(tmp_path: Path) -> None:
    plain = prepare_corpora(tmp_path / "plain", ("", GENUINE), ("", SYNTHETIC), kind="bpe")
    tagged = prepare_corpora(tmp_path / "tagged", ("", GENUINE), ("<bt>", SYNTHETIC), kind="bpe")
    for text, _ in [*GENUINE, *SYNTHETIC]:
        first, second = (
            result.tokenizers.source.ids_to_tokens(result.tokenizers.source.encode(text))
            for result in (plain, tagged)
        )
        assert first == second


def test_tag_counts_as_a_subword(tmp_path: Path) -> None:
    pairs = [("abc", "xy"), ("abcd", "xyz")]
    filters = CorpusFilterConfig(max_tokens=5)  # the symbol before each text counts as one
    result = prepare_corpora(tmp_path / "out", ("<bt>", pairs), filters=filters, kind="char")
    assert texts_of(Store(tmp_path / "out")) == [("<bt> abc", "xy")]
    assert result.reports["train"][0].issues == {"too many subwords: skipped": (1, 2)}


def test_duplicates_across_corpora_are_skipped(tmp_path: Path) -> None:
    pairs = [SYNTHETIC[0], GENUINE[3], *SYNTHETIC[1:], SYNTHETIC[0]]
    result = prepare_corpora(tmp_path / "out", ("", GENUINE), ("<bt>", pairs))
    kept = [(f"<bt> {source}", target) for source, target in SYNTHETIC]
    assert texts_of(Store(tmp_path / "out")) == [*GENUINE, *kept]
    first, second = result.reports["train"]
    assert first.issues == {}
    assert second.issues == {"duplicate: skipped": (2, 2)}
    assert (second.pairs, second.kept) == (len(pairs), len(SYNTHETIC))
    assert result.description["parts"]["train"]["found"] == {"duplicate: skipped": 2}


def test_duplicates_are_kept_if_configured(tmp_path: Path) -> None:
    filters = CorpusFilterConfig(skip_duplicates=False)
    prepare_corpora(tmp_path / "out", ("", GENUINE), ("", GENUINE), filters=filters)
    assert texts_of(Store(tmp_path / "out")) == [*GENUINE, *GENUINE]


def test_progress_numbers_the_corpora(tmp_path: Path) -> None:
    progress: dict[str, int] = {}
    files = [
        write_pairs(tmp_path, name, pairs) for name, pairs in (("a", GENUINE), ("b", [("x", "y")]))
    ]
    prepare(
        PairReader({"train": files}, CorpusFilterConfig()),
        tmp_path / "out",
        tokenizer=SMALL,
        progress=progress.__setitem__,
    )
    assert progress == {
        "validating train 1": 20,
        "validating train 2": 1,
        "encoding train 1": 20,
        "encoding train 2": 1,
    }


def test_errors_of_all_corpora_are_reported_together(tmp_path: Path) -> None:
    odd = write_pairs(tmp_path, "odd", GENUINE)
    odd.source.write_bytes(b"\xff" + odd.source.read_bytes())
    parts = {
        "train": [odd, Files(tmp_path / "no.en", tmp_path / "no.de")],
        "valid": [Files(odd.target, tmp_path / "missing")],
    }
    with pytest.raises(DataError) as caught:
        prepare(PairReader(parts, CorpusFilterConfig()), tmp_path / "out", tokenizer=SMALL)
    for words in ("odd.en, line 1: not valid UTF-8", "no.en", "missing"):
        assert words in str(caught.value)


def test_corpus_without_remaining_pairs_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"out-1\.en and .*none of the 20 pairs .*duplicate"):
        prepare_corpora(tmp_path / "out", ("", GENUINE), ("<bt>", GENUINE))


def test_invalid_tags_are_reported_before_reading(tmp_path: Path) -> None:
    nowhere = tmp_path / "no"
    parts = {"train": [Files(nowhere, nowhere, tag) for tag in ("a b", "", "<s>", "<bt>")]}
    with pytest.raises(ConfigError, match="2 problems") as caught:
        prepare(PairReader(parts, CorpusFilterConfig()), tmp_path / "out", tokenizer=SMALL)
    assert "'a b' must be one word" in str(caught.value)
    assert "'<s>' is a special token" in str(caught.value)


# Tokenizers of another folder.


@pytest.mark.parametrize("joint", [True, False])
def test_existing_tokenizers_are_used_unchanged(tmp_path: Path, joint: bool) -> None:
    first = prepare_corpora(
        tmp_path / "first", ("", GENUINE), ("<bt>", SYNTHETIC), joint=joint, lowercase=True
    )
    tokenizers = Store(tmp_path / "first").tokenizers
    second = prepare_corpora(
        tmp_path / "second", ("<bt>", [("Unseen Words", "Neues")]), tokenizer=tokenizers
    )
    store = Store(tmp_path / "second")
    assert second.tokenizers.files() == first.tokenizers.files() == store.tokenizers.files()
    assert store.tokenizers.config == first.tokenizers.config
    assert store.description["vocabulary"] == first.description["vocabulary"]
    ids = store.part("train").source[0].tolist()
    assert ids == first.tokenizers.source.encode("<bt> unseen words")


def test_tag_unknown_to_existing_tokenizers_is_split(tmp_path: Path) -> None:
    prepare_corpora(tmp_path / "first", ("", GENUINE))
    tokenizers = Store(tmp_path / "first").tokenizers
    assert not tokenizers.source.has_token("<bt>")
    prepare_corpora(tmp_path / "second", ("<bt>", SYNTHETIC), tokenizer=tokenizers)
    assert texts_of(Store(tmp_path / "second"))[0][0] == f"<bt> {SYNTHETIC[0][0]}"


# Vocabularies.


def test_joint_vocabulary_is_one_file(tmp_path: Path) -> None:
    result = prepare_pairs(tmp_path / "out", some_pairs())
    assert "tokenizer.model" in names(tmp_path / "out")
    assert result.tokenizers.source is result.tokenizers.target


def test_separate_vocabularies_are_two_files(tmp_path: Path) -> None:
    result = prepare_pairs(tmp_path / "out", some_pairs(), joint=False, vocab_size=290)
    models = {"source.model", "target.model"}
    assert models == {name for name in names(tmp_path / "out") if name.endswith(".model")}
    assert result.tokenizers.source.model != result.tokenizers.target.model
    store = Store(tmp_path / "out")
    assert texts_of(store) == some_pairs()
    assert store.description["vocabulary"] == {
        "source": store.tokenizers.source.vocab_size,
        "target": store.tokenizers.target.vocab_size,
        "joint": False,
    }


@pytest.mark.parametrize(
    ("settings", "text", "stored"),
    [
        ({}, "ＤＯＧ Straße", "ＤＯＧ Straße"),
        ({"lowercase": True}, "ＤＯＧ STRASSE Straße", "ｄｏｇ strasse straße"),
        ({"nfkc": True}, "ＤＯＧ Straße", "DOG Straße"),
        ({"nfkc": True, "lowercase": True}, "ＤＯＧ Straße", "dog straße"),
    ],
)
def test_normalization_is_stored_and_applied(
    tmp_path: Path, settings: dict[str, Any], text: str, stored: str
) -> None:
    prepare_pairs(tmp_path / "out", [*some_pairs(), (text, "x y")], **settings)
    store = Store(tmp_path / "out")
    for name in ("lowercase", "nfkc"):
        assert store.description["tokenizer"][name] == settings.get(name, False)
        assert getattr(store.tokenizers.config, name) == settings.get(name, False)
    assert texts_of(store)[-1] == (stored, "x y")
    loaded = store.tokenizers.source
    assert loaded.decode(loaded.encode(text)) == stored


def test_too_large_vocabulary_is_reduced(tmp_path: Path) -> None:
    result = prepare_pairs(tmp_path / "out", some_pairs(), vocab_size=50_000)
    sizes = result.description["vocabulary"]
    assert 260 < sizes["source"] == sizes["target"] < 50_000
    assert texts_of(Store(tmp_path / "out")) == some_pairs()


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("size", [10, 262])
def test_error_for_small_vocabulary_names_the_minimum(
    tmp_path: Path, joint: bool, size: int
) -> None:
    with pytest.raises(ConfigError, match=r"needs? at least") as caught:
        prepare_pairs(tmp_path / "out", some_pairs(), vocab_size=size, joint=joint)
    assert not (tmp_path / "out").exists()
    [minimum] = map(int, re.findall(r"at least (\d+)", str(caught.value)))
    with pytest.raises(ConfigError):
        prepare_pairs(tmp_path / "out", some_pairs(), vocab_size=minimum - 1, joint=joint)
    prepare_pairs(tmp_path / "out", some_pairs(), vocab_size=minimum, joint=joint)
    assert texts_of(Store(tmp_path / "out")) == some_pairs()


def test_ids_beyond_16_bits(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(2**16)]
    pairs = [(" ".join(words[i : i + 200]), "x") for i in range(0, len(words), 200)]
    filters = CorpusFilterConfig(max_ratio=0, max_tokens=10**4)
    prepare_pairs(tmp_path / "out", pairs, filters=filters, kind="word", vocab_size=70_000)
    store = Store(tmp_path / "out")
    ids = {int(i) for number in range(len(pairs)) for i in store.part("train").source[number]}
    assert len(ids) == 2**16
    assert max(ids) >= 2**16
    assert texts_of(store) == pairs


# What is refused.


@pytest.mark.parametrize("name", ["out", "out/notes.txt", "out/another.model"])
def test_other_folders_are_not_replaced(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(StorageError, match=r"is not a prepared folder.*Choose another --out"):
        prepare_pairs(tmp_path / "out", some_pairs())
    assert path.read_text() == "mine"


def test_text_in_a_prepared_folder_is_not_deleted(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "out", some_pairs())
    files = write_pairs(tmp_path / "out", "new", some_pairs())
    with pytest.raises(StorageError, match=r"it holds new\.de"):
        prepare(
            PairReader({"train": [files]}, CorpusFilterConfig()), tmp_path / "out", tokenizer=SMALL
        )
    assert files.source.exists()
    assert texts_of(Store(tmp_path / "out")) == some_pairs()


@pytest.mark.parametrize("out", [".", "..", "../here", "../../here/.."])
def test_working_directory_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    (tmp_path / "here").mkdir()
    files = write_pairs(tmp_path.parent / f"{tmp_path.name}-text", "train", some_pairs())
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(StorageError, match="Choose another --out"):
        prepare(PairReader({"train": [files]}, CorpusFilterConfig()), Path(out), tokenizer=SMALL)
    assert names(tmp_path) == ["here"]
    assert names(tmp_path / "here") == []


def test_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    prepare_pairs(tmp_path / "out", some_pairs())
    assert texts_of(Store(tmp_path / "out")) == some_pairs()


def test_prepared_folder_is_replaced_completely(tmp_path: Path) -> None:
    prepare_pairs(tmp_path / "out", some_pairs(), some_pairs(4), joint=False)
    prepare_pairs(tmp_path / "out", some_pairs(20))
    store = Store(tmp_path / "out")
    assert texts_of(store) == some_pairs(20)
    assert not store.has("valid")
    sides = [f"train.{side}.{end}" for side in ("source", "target") for end in ("ids", "offsets")]
    assert names(tmp_path / "out") == sorted([*sides, "store.json", "tokenizer.model"])


def test_invalid_text_leaves_no_folder(tmp_path: Path) -> None:
    files = write_pairs(tmp_path, "train", some_pairs())
    files.source.write_bytes(b"\xff" + files.source.read_bytes())
    with pytest.raises(DataError, match=r"train\.en, line 1: not valid UTF-8"):
        prepare(
            PairReader({"train": [files]}, CorpusFilterConfig()), tmp_path / "out", tokenizer=SMALL
        )
    assert names(tmp_path) == ["train.de", "train.en"]


def test_validation_errors_are_reported_before_training(tmp_path: Path) -> None:
    progress: list[str] = []
    parts = {
        "train": [write_pairs(tmp_path, "train", some_pairs())],
        "valid": [Files(tmp_path / "train.en", tmp_path / "missing")],
    }
    with pytest.raises(DataError, match=r"There is no file .*missing"):
        prepare(
            PairReader(parts, CorpusFilterConfig()),
            tmp_path / "out",
            tokenizer=SMALL,
            progress=lambda task, line: progress.append(task),
        )
    assert set(progress) == {"validating train"}


def test_no_folder_is_written_if_all_pairs_are_too_long(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none of the 60 pairs.*too many subwords: skipped: 60"):
        prepare_pairs(tmp_path / "out", some_pairs(), filters=CorpusFilterConfig(max_tokens=1))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RegardError])
@pytest.mark.parametrize("task", ["validating train", "encoding train", "encoding valid"])
def test_interruption_keeps_the_existing_folder(
    tmp_path: Path, task: str, error: type[BaseException]
) -> None:
    def interrupt(current: str, line: int) -> None:
        if (current, line) == (task, 3):
            raise error

    parts = {
        "train": [write_pairs(tmp_path / "text", "train", some_pairs())],
        "valid": [write_pairs(tmp_path / "text", "valid", some_pairs(5))],
    }
    filters = CorpusFilterConfig()
    with pytest.raises(error):
        prepare(PairReader(parts, filters), tmp_path / "new", tokenizer=SMALL, progress=interrupt)
    assert names(tmp_path) == ["text"]
    prepare(PairReader(parts, filters), tmp_path / "old", tokenizer=SMALL)
    with pytest.raises(error):
        prepare(PairReader(parts, filters), tmp_path / "old", tokenizer=SMALL, progress=interrupt)
    assert names(tmp_path) == ["old", "text"]
    assert texts_of(Store(tmp_path / "old")) == some_pairs()


def test_full_disk_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        prepare_pairs(tmp_path / "out", some_pairs())
    assert str(tmp_path / "out") in str(caught.value)
    assert names(tmp_path) == ["text"]

"""Corpora files, and the stores that are prepared from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import regard
from data.corpora import some_pairs
from regard.config import Tree
from regard.data.corpora_file import read_corpora
from regard.data.directions import Direction
from regard.data.pairs import pairs_by_direction
from regard.data.store import Store
from regard.errors import ConfigError, RegardError
from regard.text.sentences import split_sentences

PAIRS = some_pairs(40)
CHINESE = [
    ("狗在跑。猫在睡。", "The dog runs. The cat sleeps."),
    ("一只狗", "a dog"),
    ("猫", "cat"),
]


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two corpora, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, pairs in (("ende", PAIRS), ("zhen", CHINESE)):
        for side in (0, 1):
            text = "".join(pair[side] + "\n" for pair in pairs)
            (tmp_path / f"{name}.{side}").write_text(text, encoding="utf-8")
    return tmp_path


def entry(part: str, name: str, languages: str, *more: str) -> str:
    source, target = languages.split("-")
    files = f'source = "{name}.0"\ntarget = "{name}.1"\n'
    codes = f'source_lang = "{source}"\ntarget_lang = "{target}"\n'
    return f"[[{part}]]\n{files}{codes}" + "".join(f"{line}\n" for line in more)


def write(folder: Path, *entries: str) -> Path:
    path = folder / "corpora.toml"
    path.write_text("\n".join(entries), encoding="utf-8")
    return path


BOTH = "both_directions = true"
SEVERAL = (entry("train", "ende", "en-de", BOTH), entry("train", "zhen", "zh-en", 'tag = "<x>"'))


def test_store_of_several_directions_equals_a_reference(texts: Path) -> None:
    path = write(texts, *SEVERAL, entry("valid", "zhen", "zh-en"))
    store = regard.prepare(corpora=path, out=texts / "store", vocab_size=340)
    part, tokenizers = store.part("train"), store.tokenizers
    expected = [
        *[(f"<2de> {en}", de) for en, de in PAIRS],
        *[(f"<2en> {de}", en) for en, de in PAIRS],
        *[(f"<2en> <x> {zh}", en) for zh, en in CHINESE],
    ]
    rows = [(part.source[i].tolist(), part.target[i].tolist()) for i in range(len(part))]
    assert rows == [
        (tokenizers.source.encode(source), tokenizers.target.encode(target))
        for source, target in expected
    ]
    for tag in ("<2de>", "<2en>", "<x>"):
        assert tokenizers.source.has_token(tag)
    assert store.languages == {"source": None, "target": None}
    assert {str(d): i.tolist() for d, i in pairs_by_direction(part.corpora).items()} == {
        "en-de": [*range(40)],
        "de-en": [*range(40, 80)],
        "zh-en": [80, 81, 82],
    }
    valid = store.part("valid")
    assert valid.source[1].tolist() == tokenizers.source.encode("<2en> 一只狗")


def test_statistics_are_those_of_each_direction(texts: Path) -> None:
    store = regard.prepare(corpora=write(texts, *SEVERAL), out=texts / "store", vocab_size=340)
    rows = {
        "en-de": [f"<2de> {en}" for en, _ in PAIRS],
        "de-en": [f"<2en> {de}" for _, de in PAIRS],
        "zh-en": [f"<2en> <x> {zh}" for zh, _ in CHINESE],
    }
    assert [str(each.direction) for each in store.directions] == [*rows]
    for each in store.directions:
        lines = rows[str(each.direction)]
        lengths = [len(store.tokenizers.source.encode(line)) for line in lines]
        several = sum(len(split_sentences(line)) > 1 for line in lines) / len(lines)
        assert (each.pairs, each.longest_source) == (len(lines), max(lengths))
        assert each.several_sentences == several
    assert store.directions[2].several_sentences == 1 / 3


def test_both_directions_of_one_corpus_without_a_corpora_file(texts: Path) -> None:
    files: Tree = {"source": "ende.0", "target": "ende.1", "valid": ["zhen.0", "zhen.1"]}
    both: Tree = {"source_lang": "en", "target_lang": "de", "both_directions": True}
    store = regard.prepare(**files, **both, out="store", vocab_size=340)
    path = write(texts, SEVERAL[0], entry("valid", "zhen", "en-de", BOTH))
    same = regard.prepare(corpora=path, out="same", vocab_size=340, tokenizer_temperature=1)
    assert store.fingerprint == same.fingerprint
    assert store.directions == same.directions


def test_pairs_of_different_directions_are_no_duplicates(texts: Path) -> None:
    path = write(texts, entry("train", "ende", "en-de"), entry("train", "ende", "en-nl"))
    store = regard.prepare(corpora=path, out="store", vocab_size=340)
    assert [each.pairs for each in store.directions] == [40, 40]
    write(texts, entry("train", "ende", "en-de"), entry("train", "ende", "en-de"))
    with pytest.raises(RegardError, match="none of the 40 pairs is left; duplicate"):
        regard.prepare(corpora=path, out="store2")


def test_paths_and_directions_are_read_in_order(texts: Path) -> None:
    parts = read_corpora(write(texts, *SEVERAL, entry("valid", "zhen", "zh-en")))
    directions = [files.direction for files in parts["train"]]
    assert directions == [Direction("en", "de"), Direction("de", "en"), Direction("zh", "en")]
    assert parts["train"][1].source == Path("ende.1")
    assert parts["train"][2].tagged("狗") == "<2en> <x> 狗"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((), "train is missing"),
        (("train = []",), "train has no tables"),
        ((entry("train", "ende", "en-en"),), "target_lang is en, but must differ"),
        ((entry("train", "ende", "en-de", "weight = 1"),), r"train\[0\].weight does not exist"),
        ((entry("train", "ende", "en-d e"),), "'d e' is not of the form de, deu or zh-Hans"),
        ((entry("train", "ende", "en-de", 'tag = "a b"'),), "one word"),
        ((SEVERAL[1], entry("valid", "ende", "en-de")), "directions en-de have no training text"),
        (("[[train]]", 'source = "a"'), "target is missing"),
        (("train = 1",), "train is 1, but must be list"),
    ],
)
def test_invalid_files_are_refused(texts: Path, entries: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        regard.prepare(corpora=write(texts, *entries), out=texts / "store")
    assert re.search(message, str(caught.value)), caught.value
    assert not (texts / "store").exists()


def test_options_without_effect_are_refused(texts: Path) -> None:
    path = write(texts, *SEVERAL)
    for options, message in (
        ({"source_lang": "en"}, "--source-lang has no effect on --corpora"),
        ({"tag": ["<x>"]}, "--tag: no effect on several directions"),
        ({"source": ["a"]}, "mutually exclusive"),
        ({"both_directions": True}, "--both-directions: no effect on several directions"),
    ):
        with pytest.raises(ConfigError, match=message):
            regard.prepare(corpora=path, out="store", **options)
    with pytest.raises(ConfigError, match="--both-directions requires --source-lang"):
        regard.prepare(source="ende.0", target="ende.1", both_directions=True, out="store")


def test_a_changed_store_is_refused(texts: Path) -> None:
    store = regard.prepare(corpora=write(texts, *SEVERAL), out="store", vocab_size=340)
    path = store.folder / "store.json"
    path.write_text(path.read_text().replace('"target": "de"', '"target": "nl"'))
    with pytest.raises(RegardError, match="checksum"):
        Store(store.folder)

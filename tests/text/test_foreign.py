"""Imported tokenizers: our marks first, whole files, and what is said where they are not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.languages import TEXTS, byte_bpe
from exchange.marians import tables, write_tokenizer
from regard.errors import ConfigError, ModelError
from regard.text.config import TokenizerConfig
from regard.text.foreign import LIBRARY, LibraryTokenizer, library_tokenizer
from regard.text.numbering import ALONE, Numbering
from regard.text.tokenizer import Tokenizers, train_tokenizers


@given(st.sets(st.integers(0, 19), max_size=4), st.permutations(["pad", "unknown", "start", "end"]))
def test_our_marks_come_first_and_the_rest_keeps_its_order(ids: set[int], names: list[str]) -> None:
    marks = dict(zip(names, sorted(ids), strict=False))
    numbering = Numbering(20, **marks)
    first, rest = numbering.theirs[:4], numbering.theirs[4:]
    assert first == [marks.get(name, ALONE) for name in ("pad", "unknown", "start", "end")]
    assert rest == [number for number in range(20) if number not in ids]
    assert numbering.written(numbering.ours(range(20))) == list(range(20))


def byte_level() -> Tokenizers:
    config = TokenizerConfig(kind="byte_bpe")
    files = {LIBRARY: byte_bpe().to_str().encode()}
    both = LibraryTokenizer(files, Numbering(byte_bpe().get_vocab_size(), end=0), config)
    return Tokenizers(both, both, config)


def test_files_make_the_same_tokenizer(tmp_path: Path) -> None:
    made = byte_level()
    for name, content in made.files().items():
        (tmp_path / name).write_bytes(content)
    again = Tokenizers.load(tmp_path, made.config)
    assert again == made
    for text in TEXTS:
        assert again.target.decode_lines(again.target.encode_lines(text)) == text
    assert again.target.encode_lines("a\nb")[1] == again.target.line_break
    begins = again.target.word_begins()
    assert [begins[i] for i in again.target.encode("the dog")] == [False, True]


def test_what_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, tables())
    config = TokenizerConfig(kind="marian")
    with pytest.raises(ModelError, match=r"numbering.json is missing"):
        Tokenizers.load(tmp_path, config)
    numbers = {side: {"size": 90, "end": 0} for side in ("source", "target")}
    (tmp_path / "numbering.json").write_text(json.dumps(numbers))
    Tokenizers.load(tmp_path, config)
    (tmp_path / "target.spm").write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged"):
        Tokenizers.load(tmp_path, config)


def test_a_damaged_json_gets_a_sentence() -> None:
    with pytest.raises(ModelError, match=r"tokenizer.json is damaged"):
        library_tokenizer(b"{}")


def test_a_missing_package_is_missed_when_there_is_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = byte_level().files()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    made = Tokenizers.load(tmp_path, TokenizerConfig(kind="byte_bpe"))
    assert made.target.vocab_size > 256  # who needs ids alone does without
    with pytest.raises(ConfigError, match=r"pip install 'regard\[huggingface\]'"):
        made.target.encode("a dog")


def test_they_are_not_learned() -> None:
    with pytest.raises(ConfigError, match="comes with an imported model"):
        train_tokenizers(list, list, TokenizerConfig(kind="marian"))

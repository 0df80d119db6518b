"""Imported tokenizers: id mapping, files and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exchange.language_models import TEXTS, byte_bpe
from exchange.marian_models import make_vocabularies, write_tokenizer
from regard.errors import ConfigError, ModelError
from regard.text.config import TokenizerConfig
from regard.text.id_mapping import NO_IMPORTED_ID, IdMapping
from regard.text.imported import TOKENIZER_JSON, HuggingFaceTokenizer, load_huggingface_tokenizer
from regard.text.tokenizer import Tokenizers, train_tokenizers


@given(st.sets(st.integers(0, 19), max_size=4), st.permutations(["pad", "unknown", "start", "end"]))
def test_special_tokens_come_first_and_other_ids_keep_their_order(
    ids: set[int], names: list[str]
) -> None:
    special = dict(zip(names, sorted(ids), strict=False))
    mapping = IdMapping(20, **special)
    first, rest = mapping.imported_ids[:4], mapping.imported_ids[4:]
    assert first == [
        special.get(name, NO_IMPORTED_ID) for name in ("pad", "unknown", "start", "end")
    ]
    assert rest == [token for token in range(20) if token not in ids]
    assert mapping.to_imported(mapping.to_internal(range(20))) == list(range(20))


def byte_level_tokenizers() -> Tokenizers:
    config = TokenizerConfig(kind="byte_bpe")
    files = {TOKENIZER_JSON: byte_bpe().to_str().encode()}
    both = HuggingFaceTokenizer(files, IdMapping(byte_bpe().get_vocab_size(), end=0), config)
    return Tokenizers(both, both, config)


def test_tokenizer_is_equal_after_saving_and_loading(tmp_path: Path) -> None:
    original = byte_level_tokenizers()
    for name, content in original.files().items():
        (tmp_path / name).write_bytes(content)
    loaded = Tokenizers.load(tmp_path, original.config)
    assert loaded == original
    for text in TEXTS:
        assert loaded.target.decode_lines(loaded.target.encode_lines(text)) == text
    assert loaded.target.encode_lines("a\nb")[1] == loaded.target.line_break
    word_starts = loaded.target.word_starts()
    assert [word_starts[i] for i in loaded.target.encode("the dog")] == [False, True]


def test_missing_or_damaged_file_is_named(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, make_vocabularies())
    config = TokenizerConfig(kind="marian")
    with pytest.raises(ModelError, match=r"numbering.json is missing"):
        Tokenizers.load(tmp_path, config)
    mappings = {side: {"size": 90, "end": 0} for side in ("source", "target")}
    (tmp_path / "numbering.json").write_text(json.dumps(mappings))
    Tokenizers.load(tmp_path, config)
    (tmp_path / "target.spm").write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged"):
        Tokenizers.load(tmp_path, config)


def test_damaged_tokenizer_json_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"tokenizer.json is damaged"):
        load_huggingface_tokenizer(b"{}")


def test_package_tokenizers_is_needed_only_for_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = byte_level_tokenizers().files()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    loaded = Tokenizers.load(tmp_path, TokenizerConfig(kind="byte_bpe"))
    assert loaded.target.vocab_size > 256
    with pytest.raises(ConfigError, match=r"pip install 'regard\[huggingface\]'"):
        loaded.target.encode("a dog")


def test_imported_tokenizers_cannot_be_trained() -> None:
    with pytest.raises(ConfigError, match="belongs to an imported model"):
        train_tokenizers(list, list, TokenizerConfig(kind="marian"))

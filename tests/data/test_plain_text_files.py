"""Preparation of plain text: documents, lines, invalid files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from regard.data.plain_text_files import TextReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError, DataError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import altered, new_folder, some_run, write_text_store


def test_blank_lines_separate_documents(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("\n\nfirst line\nsecond line\n\n\nalone\n")
    with gzip.open(tmp_path / "two", "wt") as file:
        file.write("\ufeffanother\r\nwith an end")
    config = TokenizerConfig(kind="char", vocab_size=300)
    prepare(
        TextReader({"train": [tmp_path / "one", tmp_path / "two"]}),
        tmp_path / "out",
        tokenizer=config,
    )
    store = Store(tmp_path / "out")
    text, tokenizer = store.text("train"), store.tokenizers.source
    documents = [text.documents[number].tolist() for number in range(len(text.documents))]
    expected = ["first line\nsecond line", "alone", "another\nwith an end"]
    assert [tokenizer.decode_lines(ids) for ids in documents] == expected
    assert documents == [[*tokenizer.encode_lines(document), SPECIAL.eos] for document in expected]
    assert len(text.lines) == 5
    assert store.content == "text"


def test_invalid_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"fine\n\xff\n")
    (tmp_path / "empty").write_text("\n\n")
    files = [tmp_path / name for name in ("bad", "empty", "missing")]
    with pytest.raises(DataError) as error:
        prepare(TextReader({"train": files}), tmp_path / "out", tokenizer=TokenizerConfig())
    for message in ("bad, line 2", "empty cannot be used", "missing"):
        assert message in str(error.value)


def test_plain_text_store_is_rejected_for_pairs(tmp_path: Path) -> None:
    store = write_text_store(tmp_path)
    with pytest.raises(DataError, match="plain text"):
        store.part("train")
    with pytest.raises(ConfigError, match="--source and --target"):
        new_folder(some_run(tmp_path / "run", store, {}).model, store)
    causal = some_run(tmp_path / "run", store, {"kind": "causal"})
    with pytest.raises(ConfigError, match=r"data\.corpus_weights"):
        altered(causal, data={"corpus_weights": [2.0]})

"""Loading the tokenizers of prepared folders and model folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.store import Store
from regard.errors import DataError, ModelError
from regard.models.transformer import TransformerConfig
from regard.text.folder import load_folder_tokenizers
from toys import new_folder


def test_tokenizers_are_loaded_from_prepared_and_model_folders(
    tmp_path: Path, reversal_store: Store
) -> None:
    new_folder(TransformerConfig(), reversal_store).write(tmp_path)
    for folder in (reversal_store.folder, tmp_path):
        tokenizers = load_folder_tokenizers(folder)
        assert tokenizers.files() == reversal_store.tokenizers.files()
        assert tokenizers.config == reversal_store.tokenizers.config


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_folder_without_description_is_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"neither store\.json nor config\.json\. Give the folder"):
        load_folder_tokenizers(tmp_path / name)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "\xff", '{"tokenizer": {"kind": 3}}', '{"tokenizer": 3}']
)
@pytest.mark.parametrize("name", ["store.json", "config.json"])
def test_damaged_description_is_rejected(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=rf"{name} is damaged .*Copy the whole folder again"):
        load_folder_tokenizers(tmp_path)


def test_missing_tokenizer_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"tokenizer": {}}')
    with pytest.raises(ModelError, match=r"tokenizer\.model is missing"):
        load_folder_tokenizers(tmp_path)

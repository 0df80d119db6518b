"""Tokenizers are found in any folder that describes itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.data.store import Store
from regard.errors import DataError, ModelError
from regard.models.transformer import TransformerConfig
from regard.text.folder import tokenizers_in
from toys import new_folder


def test_a_prepared_folder_and_a_model_folder_have_tokenizers(
    tmp_path: Path, reversal_store: Store
) -> None:
    new_folder(TransformerConfig(), reversal_store).write(tmp_path)
    for folder in (reversal_store.folder, tmp_path):
        found = tokenizers_in(folder)
        assert found.files() == reversal_store.tokenizers.files()
        assert found.config == reversal_store.tokenizers.config


@pytest.mark.parametrize("name", [".", "nowhere"])
def test_a_folder_without_a_description_is_an_error_with_a_remedy(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(DataError, match=r"neither store\.json nor config\.json\. Give the folder"):
        tokenizers_in(tmp_path / name)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "\xff", '{"tokenizer": {"kind": 3}}', '{"tokenizer": 3}']
)
@pytest.mark.parametrize("name", ["store.json", "config.json"])
def test_a_damaged_description_is_an_error_with_a_remedy(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match=rf"{name} is damaged .*Copy the whole folder again"):
        tokenizers_in(tmp_path)


def test_a_lost_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"tokenizer": {}}')
    with pytest.raises(ModelError, match=r"tokenizer\.model is missing"):
        tokenizers_in(tmp_path)

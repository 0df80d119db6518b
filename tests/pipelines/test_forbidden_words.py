"""Forbidden words are banned in all of their segmentations."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard
from regard.config import build
from regard.data.store import Store
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError
from regard.pipelines.forbidden_words import forbid_words
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import train_tokenizers
from toys import write_model_folder

LINES = ["der Hund und die Hunde", "die Katze", "der Hund", "die 猫 und 猫好", "Hundert Hunde"] * 40
TOKENIZER = train_tokenizers(
    lambda: LINES, lambda: LINES, build(TokenizerConfig, {"vocab_size": 310})
).target


def banned(*words: str) -> list[str]:
    config = forbid_words(SearchConfig(beam_size=2), words, TOKENIZER, "beam search")
    assert config.beam_size == 2
    return [" ".join(TOKENIZER.ids_to_tokens(ids)) for ids in config.banned_sequences]


def test_every_segmentation_is_banned() -> None:
    sequences = banned("Hund")
    assert len(sequences) == len({*sequences}) > 1
    assert {sequence.replace(" ", "") for sequence in sequences} == {"▁Hund"}
    best = " ".join(TOKENIZER.ids_to_tokens(TOKENIZER.encode("Hund")))
    assert best in sequences


def test_spelling_matters_and_sequences_are_distinct() -> None:
    assert {*banned("Hund", "Katze")} == {*banned("Hund"), *banned("Katze")}
    assert banned("Hund", " Hund ") == banned("Hund")
    assert all("hund" not in sequence.replace(" ", "") for sequence in banned("Hund"))


def test_words_without_spaces_are_banned_anywhere() -> None:
    surfaces = {sequence.replace(" ", "") for sequence in banned("猫")}
    assert surfaces == {"▁猫", "猫"}


def test_no_words() -> None:
    config = SearchConfig(banned_sequences=((5,),))
    assert forbid_words(config, [], TOKENIZER, "CTC decoding") is config
    assert forbid_words(config, ["Hund"], TOKENIZER, "sampling").banned_sequences[0] == (5,)


def test_errors() -> None:
    with pytest.raises(ConfigError, match="banned_sequences has the token id 99999"):
        forbid_words(SearchConfig(banned_sequences=((5, 99999),)), [], TOKENIZER, "sampling")
    with pytest.raises(ConfigError, match=r"banned_sequences\[0\]\[1\] is -1"):
        SearchConfig(banned_sequences=((5, -1),))
    with pytest.raises(ConfigError, match="is empty"):
        banned("Hund", "  ")
    with pytest.raises(ConfigError, match=r"forbid .* no effect in CTC decoding"):
        forbid_words(SearchConfig(), ["Hund"], TOKENIZER, "CTC decoding")


@pytest.mark.parametrize("backend", ["torch", "ctranslate2"])
def test_translations_do_not_contain_forbidden_words(
    backend: str, reversal_store: Store, tmp_path: Path
) -> None:
    model = regard.load(write_model_folder(tmp_path / "model", reversal_store), backend=backend)
    texts = ["a b c", "d e", "f g h i", "j"]
    first = model.translate(texts, retry=False)
    words = sorted({word for translation in first for word in translation.text.split()})
    forbidden = words[:2]
    for settings in ({}, {"beam_size": 1}):
        translated = model.translate(texts, forbid=forbidden, **settings)
        assert not {*forbidden} & {word for each in translated for word in each.text.split()}

"""Token masking: fractions, special tokens, whole words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.config import build
from regard.data.masking import Masker, MaskingConfig
from regard.data.plain_text_files import TextReader
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.errors import ConfigError
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import write_text_store

MASK = SPECIAL.unk


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that splits most words."""
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "text").write_text("banana bandana ananas\nnana anna\n" * 9)
    config = TokenizerConfig(kind="char", vocab_size=300)
    prepare(TextReader({"train": [folder / "text"]}), folder / "out", tokenizer=config)
    return Store(folder / "out").tokenizers.source


def test_masking_fractions(store: Store) -> None:
    config = build(
        MaskingConfig, {"probability": 0.2, "mask_fraction": 0.6, "random_fraction": 0.3}
    )
    size = store.tokenizers.source.vocab_size
    ids = np.random.default_rng(0).integers(4, size, 40000)
    inputs, labels = Masker(store.tokenizers.source, config, MASK).mask_tokens(
        ids, np.random.default_rng(1)
    )
    masked = labels != SPECIAL.pad
    assert (labels[masked] == ids[masked]).all()
    assert (inputs[~masked] == ids[~masked]).all()
    assert masked.mean() == pytest.approx(0.2, abs=0.01)
    assert (inputs[masked] == MASK).mean() == pytest.approx(0.6, abs=0.02)
    unchanged = (inputs[masked] == ids[masked]).mean()
    assert unchanged == pytest.approx(0.1 + 0.3 / size, abs=0.02)
    random_tokens = inputs[masked & (inputs != MASK) & (inputs != ids)]
    assert random_tokens.min() >= 4
    assert len(random_tokens) / masked.sum() == pytest.approx(0.3, abs=0.02)


def test_special_tokens_are_not_masked_and_one_token_always_is(store: Store) -> None:
    masker = Masker(store.tokenizers.source, MaskingConfig(), MASK)
    for seed in range(50):
        ids = np.array([SPECIAL.bos, 270, 271, SPECIAL.eos])
        _, labels = masker.mask_tokens(ids, np.random.default_rng(seed))
        assert labels[0] == labels[-1] == SPECIAL.pad
        assert (labels != SPECIAL.pad).any()


def test_whole_word_masking(subwords: Tokenizer) -> None:
    text = "banana bandana\nananas nana " * 40 + "anna"
    ids = np.array([SPECIAL.bos, *subwords.encode_lines(text), SPECIAL.eos])
    tokens = subwords.ids_to_tokens(ids.tolist())
    config = MaskingConfig(whole_words=True, probability=0.3)
    _, labels = Masker(subwords, config, MASK).mask_tokens(ids, np.random.default_rng(2))
    masked = labels != SPECIAL.pad
    words: list[list[bool]] = []
    for token, is_masked in zip(tokens[1:-1], masked[1:-1], strict=True):
        if token.startswith("▁") or token == "<0x0A>" or words[-1] is None:
            words.append([])
        words[-1].append(bool(is_masked))
    assert all(len(set(word)) == 1 for word in words)
    assert 0.2 < np.mean([word[0] for word in words]) < 0.4
    single = MaskingConfig(probability=0.3)
    _, labels = Masker(subwords, single, MASK).mask_tokens(ids, np.random.default_rng(2))
    assert (np.diff((labels != SPECIAL.pad).astype(int)) != 0).sum() > 300  # single subwords


def test_fractions_above_one_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sum must be at most 1"):
        build(MaskingConfig, {"mask_fraction": 0.8, "random_fraction": 0.3})

"""What is hidden from a masked language model: how much, how, and always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from regard.config import build
from regard.data.masking import Masker, MaskingConfig
from regard.data.prepare import prepare
from regard.data.store import Store
from regard.data.text_files import TextReader
from regard.errors import ConfigError
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from toys import write_text_store

MASK = SPECIAL.unknown


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return write_text_store(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def subwords(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer that cuts most words."""
    folder = tmp_path_factory.mktemp("subwords")
    (folder / "text").write_text("banana bandana ananas\nnana anna\n" * 9)
    config = TokenizerConfig(kind="char", vocab_size=300)
    prepare(TextReader({"train": [folder / "text"]}), folder / "out", tokenizer=config)
    return Store(folder / "out").tokenizers.source


def test_shares(store: Store) -> None:
    config = build(MaskingConfig, {"share": 0.2, "masked": 0.6, "replaced": 0.3})
    size = store.tokenizers.source.vocab_size
    ids = np.random.default_rng(0).integers(4, size, 40000)
    read, wanted = Masker(store.tokenizers.source, config, MASK).hide(ids, np.random.default_rng(1))
    hidden = wanted != SPECIAL.pad
    assert (wanted[hidden] == ids[hidden]).all()
    assert (read[~hidden] == ids[~hidden]).all()
    assert hidden.mean() == pytest.approx(0.2, abs=0.01)
    assert (read[hidden] == MASK).mean() == pytest.approx(0.6, abs=0.02)
    kept = (read[hidden] == ids[hidden]).mean()
    assert kept == pytest.approx(0.1 + 0.3 / size, abs=0.02)
    others = read[hidden & (read != MASK) & (read != ids)]
    assert others.min() >= 4
    assert len(others) / hidden.sum() == pytest.approx(0.3, abs=0.02)


def test_marks_are_never_hidden_and_something_always_is(store: Store) -> None:
    masker = Masker(store.tokenizers.source, MaskingConfig(), MASK)
    for seed in range(50):
        ids = np.array([SPECIAL.start, 270, 271, SPECIAL.end])
        _, wanted = masker.hide(ids, np.random.default_rng(seed))
        assert wanted[0] == wanted[-1] == SPECIAL.pad
        assert (wanted != SPECIAL.pad).any()


def test_whole_words(subwords: Tokenizer) -> None:
    text = "banana bandana\nananas nana " * 40 + "anna"
    ids = np.array([SPECIAL.start, *subwords.encode_lines(text), SPECIAL.end])
    pieces = subwords.pieces(ids.tolist())
    config = MaskingConfig(whole_words=True, share=0.3)
    _, wanted = Masker(subwords, config, MASK).hide(ids, np.random.default_rng(2))
    hidden = wanted != SPECIAL.pad
    words: list[list[bool]] = []
    for piece, one in zip(pieces[1:-1], hidden[1:-1], strict=True):
        if piece.startswith("▁") or piece == "<0x0A>" or words[-1] is None:
            words.append([])
        words[-1].append(bool(one))
    assert all(len(set(word)) == 1 for word in words)
    assert 0.2 < np.mean([word[0] for word in words]) < 0.4
    single = MaskingConfig(share=0.3)
    _, wanted = Masker(subwords, single, MASK).hide(ids, np.random.default_rng(2))
    assert (np.diff((wanted != SPECIAL.pad).astype(int)) != 0).sum() > 300  # here and there


def test_shares_of_more_than_all_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exceed 1"):
        build(MaskingConfig, {"masked": 0.8, "replaced": 0.3})

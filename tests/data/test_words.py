"""Lines are cut as the tokenizer cuts them, and links are carried over to words."""

from __future__ import annotations

import pytest

from data.corpora import some_pairs
from regard.config import build
from regard.data.words import Pairs, by_subwords, by_words
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import train_tokenizers

LINES = ["A dog sees the house.", "", "  the  (dog) ...  ä", "Straße, Hund!"]


def tokenizer(kind: str) -> Tokenizer:
    lines = [*(text for pair in some_pairs() for text in pair), *["as. ."] * 30]
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": 300, "lowercase": True})
    return train_tokenizers(lambda: lines, lambda: lines, config).source


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_subwords_of_words_are_those_of_the_line(kind: str) -> None:
    own = tokenizer(kind)
    lines = [*LINES, *(text for pair in some_pairs(20, seed=4) for text in pair)]
    cut = by_subwords(lines, own)
    for number, line in enumerate(lines):
        plain = " ".join(line.split())
        assert cut.rows[number].tolist() == (own.encode(plain) if plain else [])
        assert cut.words[number] == line.split()
        assert cut.parts[number] == own.pieces(cut.rows[number].tolist())
        words = {owner for owner in cut.owners[number] if owner >= 0}
        assert words == set(range(len(line.split())))


def test_words_are_the_same_whatever_their_case_and_punctuation() -> None:
    cut = by_words(["The dog, the cat", "(dog) ... -", ""])
    the, dog, same, cat = cut.rows[0].tolist()
    assert the == same
    assert len({the, dog, cat}) == 3
    assert cut.rows[1][0] == dog
    assert len(set(cut.rows[1].tolist())) == 3
    assert cut.owners == [[0, 1, 2, 3], [0, 1, 2], []]
    assert cut.rows.lengths().tolist() == [4, 3, 0]


def test_punctuation_at_a_word_does_not_link_it() -> None:
    cut = by_subwords(["as. ."], tokenizer("char"))
    assert cut.parts == [["▁", "a", "s", ".", "▁", "."]]
    assert cut.owners == [[-1, 0, 0, -1, 1, 1]]
    words, parts = Pairs(cut, cut, over_words=True), Pairs(cut, cut, over_words=False)
    links = {(1, 2), (2, 2), (3, 5), (5, 3), (5, 5)}
    assert words.links(0, links) == {(0, 0), (1, 1)}
    assert parts.links(0, links) == links
    assert words.labels(0) == (["as.", "."], ["as.", "."])
    assert parts.labels(0)[0] == cut.parts[0]

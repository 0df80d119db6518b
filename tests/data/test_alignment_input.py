"""Aligner input: segmentation of lines, and conversion of subword links to word links."""

from __future__ import annotations

import pytest

from data.corpora import some_pairs
from regard.config import build
from regard.data.alignment_input import AlignmentPairs, segment_into_subwords, segment_into_words
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import train_tokenizers

LINES = ["A dog sees the house.", "", "  the  (dog) ...  ä", "Straße, Hund!"]


def tokenizer(kind: str) -> Tokenizer:
    lines = [*(text for pair in some_pairs() for text in pair), *["as. ."] * 30]
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": 300, "lowercase": True})
    return train_tokenizers(lambda: lines, lambda: lines, config).source


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_subwords_of_words_equal_subwords_of_the_line(kind: str) -> None:
    subwords = tokenizer(kind)
    lines = [*LINES, *(text for pair in some_pairs(20, seed=4) for text in pair)]
    segmented = segment_into_subwords(lines, subwords)
    for number, line in enumerate(lines):
        plain = " ".join(line.split())
        assert segmented.rows[number].tolist() == (subwords.encode(plain) if plain else [])
        assert segmented.words[number] == line.split()
        assert segmented.tokens[number] == subwords.ids_to_tokens(segmented.rows[number].tolist())
        words = {index for index in segmented.word_indices[number] if index >= 0}
        assert words == set(range(len(line.split())))


def test_words_ignore_case_and_punctuation() -> None:
    segmented = segment_into_words(["The dog, the cat", "(dog) ... -", ""])
    the, dog, same, cat = segmented.rows[0].tolist()
    assert the == same
    assert len({the, dog, cat}) == 3
    assert segmented.rows[1][0] == dog
    assert len(set(segmented.rows[1].tolist())) == 3
    assert segmented.word_indices == [[0, 1, 2, 3], [0, 1, 2], []]
    assert segmented.rows.lengths().tolist() == [4, 3, 0]


def test_attached_punctuation_is_not_aligned() -> None:
    segmented = segment_into_subwords(["as. ."], tokenizer("char"))
    assert segmented.tokens == [["▁", "a", "s", ".", "▁", "."]]
    assert segmented.word_indices == [[-1, 0, 0, -1, 1, 1]]
    words, parts = (
        AlignmentPairs(segmented, segmented, over_words=True),
        AlignmentPairs(segmented, segmented, over_words=False),
    )
    links = {(1, 2), (2, 2), (3, 5), (5, 3), (5, 5)}
    assert words.convert_links(0, links) == {(0, 0), (1, 1)}
    assert parts.convert_links(0, links) == links
    assert words.labels(0) == (["as.", "."], ["as.", "."])
    assert parts.labels(0)[0] == segmented.tokens[0]

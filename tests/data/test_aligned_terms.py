"""Terms by word alignment: closed phrases of content words."""

from __future__ import annotations

import math

import pytest

from regard.data.aligned_terms import MAX_WORDS, AlignedCorpus
from regard.data.alignments import parse_pharaoh

SOURCE, TARGET = "a red fire truck, 5 of 我", "Ein rotes Feuerwehrauto, 5 der I"


def terms_of(
    links: str, source: str = SOURCE, target: str = TARGET, others: str = ""
) -> set[tuple[str, str]]:
    """The terms of a pair with these links, as texts; `others` are lines of both sides."""
    corpus = AlignedCorpus()
    corpus.add(source, target)
    for line in others.splitlines():
        corpus.add(line, line)
    for _ in corpus.align([False] * len(corpus)):
        raise AssertionError("no pair was selected")
    terms = corpus.terms(source, target, *parse_pharaoh(links, "links"))
    return {(source[term.start : term.end], term.translation) for term in terms}


def test_terms_are_closed_phrases() -> None:
    assert terms_of("1-1 2-2 3p2") == {
        ("red", "rotes"),
        ("fire truck", "Feuerwehrauto"),
        ("red fire truck", "rotes Feuerwehrauto"),
    }
    assert terms_of("1-1 2p2 3p2") == {("red", "rotes"), ("red fire truck", "rotes Feuerwehrauto")}
    assert terms_of("") == set()


def test_punctuation_and_numbers_are_no_terms() -> None:
    assert terms_of("4-3 5-4 3-2 6-5") == {("truck", "Feuerwehrauto"), ("of", "der")}
    assert terms_of("7-6") == {("我", "I")}


def test_frequent_words_are_no_terms() -> None:
    others = "x of der y\nof der\nof der z\n v of der of der w"
    assert terms_of("6-5 1-1", others=others) == {("red", "rotes")}


def test_a_capital_letter_at_the_beginning_may_be_that_of_the_sentence() -> None:
    assert terms_of("0-0") == {("a", "Ein")}
    assert terms_of("0-0", others="x x x ein\n") == {("a", "ein")}
    assert terms_of("0-0", others="x x x ein\nx x x Ein") == {("a", "Ein")}
    assert ("red", "rotes") in terms_of("1-1", others="x x x Rotes\n")


def test_length_of_terms() -> None:
    words = "p q r s t"
    links = " ".join(f"{i}-{i}" for i in range(5))
    terms = terms_of(links, words, words)
    assert ("p q r s", "p q r s") in terms
    assert max(len(source.split()) for source, _ in terms) == MAX_WORDS


def test_alignment_of_selected_pairs() -> None:
    corpus = AlignedCorpus()
    pairs = [("a b", "A B"), ("b c", "B C"), ("c a", "C A"), ("b a", "B A")] * 10
    for pair in pairs:
        corpus.add(*pair)
    selected = [number % 7 == 3 for number in range(len(pairs))]
    links = [*corpus.align(selected)]
    assert len(links) == sum(selected)
    for (source, target), each in zip(
        (pair for pair, flag in zip(pairs, selected, strict=True) if flag), links, strict=True
    ):
        assert each == ({(0, 0), (1, 1)}, {(0, 0), (1, 1)})
        terms = corpus.terms(source, target, *each)
        assert (0, 1, target[0]) in [term[:3] for term in terms]


def test_weights_favour_rare_and_short_terms() -> None:
    corpus = AlignedCorpus()
    for line in ("r s", "s t", "t s u v", "v v v v v v v"):
        corpus.add(line, line)
    terms = corpus.terms("r s t", "r s t", *parse_pharaoh("0-0 1-1 2-2", "links"))
    weights = {"r s t"[term.start : term.end]: term.weight for term in terms}
    counts = {"r": 1, "s": 3, "t": 2}
    assert weights.keys() == {*counts, "r s", "s t", "r s t"}
    for words, weight in weights.items():
        rarest = min(counts[word] for word in words.split())
        assert weight == pytest.approx(1 / math.log2(1 + rarest) / len(words.split()))

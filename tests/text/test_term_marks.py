"""Annotated terms: the source text and its subwords are unchanged around the annotations."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.config import build
from regard.text.config import TokenizerConfig
from regard.text.subword_sampling import SubwordSampler
from regard.text.term_marks import (
    TERM_MARKS,
    AnnotatedTerm,
    annotate,
    contains_mark,
    plain_offsets,
    strip_annotations,
)
from regard.text.tokenizer import train_tokenizers
from regard.text.words import word_spans
from text.toy_tokenizers import LINES, texts


def annotate_words(text: str, words: dict[str, str]) -> str:
    """The text with translations of some words."""
    spans = [match.span() for word in words for match in re.finditer(word, text)]
    return annotate(text, [AnnotatedTerm(*span, words[text[slice(*span)]]) for span in spans])


@pytest.mark.parametrize(
    ("text", "words", "annotated"),
    [
        ("a dog, a cat", {"dog": "Hund"}, "a<term> dog<trans> Hund</term>, a cat"),
        ("dogs bark", {"dogs": "Hunde"}, "<term> dogs<trans> Hunde</term> bark"),
        ('"dog"', {"dog": "der Hund"}, '"<term>dog<trans> der Hund</term>"'),
        ("a b c", {"b": "B", "c": "C"}, "a<term> b<trans> B</term><term> c<trans> C</term>"),
        ("a  dog", {"dog": "Hund"}, "a <term> dog<trans> Hund</term>"),
        ("a dog", {"dog": "狗"}, "a<term> dog<trans>狗</term>"),
        ("我养狗。", {"狗": "dog"}, "我养<term>狗<trans> dog</term>。"),
        ("Raumschiff", {"schiff": "ship"}, "Raum<term>schiff<trans> ship</term>"),
        ("a dog", {}, "a dog"),
    ],
)
def test_annotations(text: str, words: dict[str, str], annotated: str) -> None:
    assert annotate_words(text, words) == annotated
    assert strip_annotations(annotated) == text


@given(texts, st.data())
def test_stripping_undoes_annotation(text: str, data: st.DataObject) -> None:
    spans = word_spans(text)
    flags = data.draw(st.lists(st.booleans(), min_size=len(spans), max_size=len(spans)))
    words = data.draw(st.lists(texts, min_size=len(spans), max_size=len(spans)))
    terms = [
        AnnotatedTerm(*span, word)
        for span, word, flag in zip(spans, words, flags, strict=True)
        if flag and not contains_mark(word)
    ]
    annotated = annotate(text, terms)
    assert annotated.count("</term>") == len(terms)
    assert strip_annotations(annotated) == text
    offsets = plain_offsets(annotated)
    assert len(offsets) == len(annotated) + 1
    assert offsets[-1] == len(text)
    inside = 0  # of a mark or a translation
    plain = iter(range(len(text)))
    for position, offset in enumerate(offsets[:-1]):
        if annotated.startswith("<term>", position):
            inside = position + len("<term>") + (position == 0)
        if annotated.startswith("<trans>", position):
            inside = annotated.index("</term>", position) + len("</term>")
            term = terms.pop(0)
        if position >= inside:
            assert offset == next(plain)
        elif "<trans>" in annotated[position:inside]:
            assert offset == term.start


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("a<term> b<trans> x</term> c", [0, *[1] * 6, 1, 2, *[2] * 16, 3, 4, 5]),
        ("<term> b<trans>x</term>", [*[0] * 7, 0, *[0] * 15, 1]),
    ],
)
def test_positions_of_a_translation_are_those_of_its_term(text: str, offsets: list[int]) -> None:
    assert plain_offsets(text) == offsets


def test_incomplete_annotations_are_text() -> None:
    for text in ("a <term> b", "a<trans> b</term>", "<term> b</term>", "<term>", "a < term > b"):
        assert strip_annotations(text) == text
        assert plain_offsets(text) == [*range(len(text) + 1)]


def test_marks_are_recognized_after_normalization() -> None:
    for text in ("a<term>b", "</TERM>", "＜trans＞", "x <Term>"):
        assert contains_mark(text)
    for text in ("term", "<terms>", "< term >", "</ term>", ""):
        assert not contains_mark(text)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
def test_marks_are_tokens_and_other_words_keep_theirs(kind: str) -> None:
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": 340})
    source = train_tokenizers(lambda: LINES, lambda: LINES, config, marks=TERM_MARKS).source
    text = "the dog sleeps, and runs"
    annotated = annotate_words(text, {"dog": "Straße", "runs": "läuft"})
    tokens = source.ids_to_tokens(source.encode(annotated))
    assert source.decode(source.encode(annotated)) == annotated
    starts, ends = (
        [i for i, token in enumerate(tokens) if token == mark] for mark in ("<trans>", "</term>")
    )
    assert len(starts) == len(ends) == tokens.count("<term>") == 2
    translated = {i for span in zip(starts, ends, strict=True) for i in range(span[0], span[1])}
    rest = [t for i, t in enumerate(tokens) if i not in translated and t not in TERM_MARKS]
    assert rest == source.ids_to_tokens(source.encode(text))
    translation = source.encode("Straße")
    assert tokens[starts[0] + 1 : ends[0]] == source.ids_to_tokens(translation)
    assert not any(mark in source.ids_to_tokens(source.encode(text)) for mark in TERM_MARKS)
    if kind == "unigram":
        sampler = SubwordSampler(source, candidates=8, temperature=50.0)
        ids = source.encode(annotated)
        sampled = [sampler.sample(ids, Random(seed)) for seed in range(20)]
        assert len({*map(tuple, sampled)}) > 1
        for ids in sampled:
            assert source.decode(ids) == annotated
            marks = [token for token in source.ids_to_tokens(ids) if token in TERM_MARKS]
            assert marks == [*TERM_MARKS * 2]

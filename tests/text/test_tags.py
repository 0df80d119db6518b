"""Source tags: which are valid, and that each is a single subword."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import build
from regard.errors import ConfigError
from regard.text.base import Tokenizer
from regard.text.config import TokenizerConfig
from regard.text.subword_sampling import SubwordSampler
from regard.text.tags import add_tag, tag_problems
from regard.text.tokenizer import train_tokenizers

KINDS = ("unigram", "bpe", "char", "word")
LINES = ["the dog sleeps", "a dog sees the house", "the house <b> there", "a bt t > b <"] * 10
TEXTS = st.lists(st.sampled_from(["the", "dog", "<bt>", "<x>", "<", ">", "bt", " ", "é"])).map(
    "".join
)


@cache
def tokenizer(kind: str, *, vocab_size: int = 330) -> Tokenizer:
    config = build(TokenizerConfig, {"kind": kind, "vocab_size": vocab_size})
    return train_tokenizers(lambda: LINES, lambda: LINES, config, ["<bt>", "<x>"]).source


def test_tag_is_added_before_the_text() -> None:
    assert add_tag("a dog", "<bt>") == "<bt> a dog"
    assert add_tag("a dog", "") == "a dog"


@pytest.mark.parametrize("tag", ["", "<bt>", "<2de>", "bt", "⟨回译⟩", "a,b", "<S2>"])
def test_valid_tags(tag: str) -> None:
    assert tag_problems([tag]) == []


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        (" ", "whitespace only"),
        ("a b", "one word"),
        (" <bt>", "one word"),
        ("<bt>\t", "one word"),
        ("a\u3000b", "one word"),
        ("▁bt", "one word"),
        ("b\0t", "one word"),
        ("\udcff", "one word"),
        ("<s>", "a special token"),
        ("</S>", "a special token"),
        ("<pad>", "a special token"),
        ("<0x41>", "a special token"),
    ],
)
def test_invalid_tags(tag: str, problem: str) -> None:
    [message] = tag_problems(["<bt>", tag])
    assert problem in message
    assert repr(tag) in message


@pytest.mark.parametrize("kind", KINDS)
def test_tag_is_one_subword_and_leaves_other_tokens_unchanged(kind: str) -> None:
    subwords = tokenizer(kind)
    for tag in ("<bt>", "<x>"):
        [tag_id] = subwords.encode(tag)
        assert subwords.has_token(tag)
        assert subwords.encode(f"{tag} the dog") == [tag_id, *subwords.encode("the dog")]
    assert not subwords.has_token("<other>")


@pytest.mark.parametrize("kind", KINDS)
def test_tag_matches_only_at_the_beginning_of_a_word(kind: str) -> None:
    [tag] = tokenizer(kind).encode("<bt>")
    assert tag in tokenizer(kind).encode("the <bt> dog")
    assert tag not in tokenizer(kind).encode("the dog<bt> sleeps")


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=TEXTS)
def test_text_with_tags_round_trips(kind: str, text: str) -> None:
    subwords = tokenizer(kind)
    assert subwords.decode(subwords.encode(text)) == text


@settings(deadline=None)
@given(text=TEXTS, seed=st.integers(0, 2**32))
def test_subword_sampling_never_splits_a_tag(text: str, seed: int) -> None:
    subwords = tokenizer("unigram")
    ids = {subwords.encode("<bt>")[0], subwords.encode("<x>")[0]}
    best = subwords.encode(text)
    sampled = SubwordSampler(subwords, candidates=64, temperature=50.0).sample(best, Random(seed))
    assert [i for i in sampled if i in ids] == [i for i in best if i in ids]
    assert subwords.decode(sampled) == text


def test_tags_are_in_the_source_vocabulary_only() -> None:
    config = TokenizerConfig(vocab_size=300, joint=False)
    both = train_tokenizers(lambda: LINES, lambda: LINES, config, ["<bt>"])
    assert both.source.has_token("<bt>")
    assert not both.target.has_token("<bt>")


@pytest.mark.parametrize("kind", KINDS)
def test_tags_count_towards_the_minimum_vocabulary_size(kind: str) -> None:
    with pytest.raises(ConfigError, match="--vocab-size") as caught:
        tokenizer(kind, vocab_size=262)
    minimum = int(str(caught.value).split("--vocab-size ")[1].split()[0])
    assert tokenizer(kind, vocab_size=minimum).has_token("<bt>")

"""Tags: which are allowed, and that each is one subword wherever a person may type it."""

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
from regard.text.recut import Recutter
from regard.text.tags import tag_problems, tagged
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


def test_a_tag_is_a_word_before_the_text() -> None:
    assert tagged("a dog", "<bt>") == "<bt> a dog"
    assert tagged("a dog", "") == "a dog"


@pytest.mark.parametrize("tag", ["", "<bt>", "<2de>", "bt", "⟨回译⟩", "a,b", "<S2>"])
def test_good_tags(tag: str) -> None:
    assert tag_problems([tag]) == []


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        (" ", "nothing but spaces"),
        ("a b", "one word"),
        (" <bt>", "one word"),
        ("<bt>\t", "one word"),
        ("a\u3000b", "one word"),
        ("▁bt", "one word"),
        ("b\0t", "one word"),
        ("\udcff", "one word"),
        ("<s>", "a mark"),
        ("</S>", "a mark"),
        ("<pad>", "a mark"),
        ("<0x41>", "a mark"),
    ],
)
def test_bad_tags(tag: str, problem: str) -> None:
    [message] = tag_problems(["<bt>", tag])
    assert problem in message
    assert repr(tag) in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_is_one_subword_and_changes_nothing_after_it(kind: str) -> None:
    subwords = tokenizer(kind)
    for tag in ("<bt>", "<x>"):
        [own] = subwords.encode(tag)
        assert subwords.knows(tag)
        assert subwords.encode(f"{tag} the dog") == [own, *subwords.encode("the dog")]
    assert not subwords.knows("<other>")


@pytest.mark.parametrize("kind", KINDS)
def test_a_tag_is_found_at_the_beginning_of_a_word_only(kind: str) -> None:
    [tag] = tokenizer(kind).encode("<bt>")
    assert tag in tokenizer(kind).encode("the <bt> dog")
    assert tag not in tokenizer(kind).encode("the dog<bt> sleeps")


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(text=TEXTS)
def test_text_with_tags_comes_back_as_it_was(kind: str, text: str) -> None:
    subwords = tokenizer(kind)
    assert subwords.decode(subwords.encode(text)) == text


@settings(deadline=None)
@given(text=TEXTS, seed=st.integers(0, 2**32))
def test_no_sampled_cut_takes_a_tag_apart(text: str, seed: int) -> None:
    subwords = tokenizer("unigram")
    ids = {subwords.encode("<bt>")[0], subwords.encode("<x>")[0]}
    best = subwords.encode(text)
    cut = Recutter(subwords, candidates=64, temperature=50.0).recut(best, Random(seed))
    assert [i for i in cut if i in ids] == [i for i in best if i in ids]
    assert subwords.decode(cut) == text


def test_tags_belong_to_the_source() -> None:
    config = TokenizerConfig(vocab_size=300, joint=False)
    both = train_tokenizers(lambda: LINES, lambda: LINES, config, ["<bt>"])
    assert both.source.knows("<bt>")
    assert not both.target.knows("<bt>")


@pytest.mark.parametrize("kind", KINDS)
def test_tags_count_towards_the_smallest_vocabulary(kind: str) -> None:
    with pytest.raises(ConfigError, match="--vocab-size") as caught:
        tokenizer(kind, vocab_size=262)
    minimum = int(str(caught.value).split("--vocab-size ")[1].split()[0])
    assert tokenizer(kind, vocab_size=minimum).knows("<bt>")

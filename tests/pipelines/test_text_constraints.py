"""Constraints of a text: what terms must occur, how often, and as which tokens."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from regard.config import build
from regard.data.content import Vocabulary
from regard.data.model_text import DataStatistics, ModelText
from regard.decoding.token_constraints import Automata
from regard.errors import ConfigError
from regard.pipelines.text_constraints import TextConstraints, text_constraints
from regard.text.config import TokenizerConfig
from regard.text.reversed import ReversedTokenizer
from regard.text.segmentations import continues_word
from regard.text.term_marks import TERM_MARKS
from regard.text.tokenizer import Tokenizers, train_tokenizers

LINES = ["der Hund und die Hunde", "ein rotes Haus, Häuser", "3 Hunde", "die 猫 und 猫好"] * 40
TOKENIZERS = train_tokenizers(
    lambda: LINES, lambda: LINES, build(TokenizerConfig, {"vocab_size": 310}), marks=TERM_MARKS
)
TOKENIZER = TOKENIZERS.target
SIZE = TOKENIZER.vocab_size
AUTOMATA = Automata(continues_word(TOKENIZER))


def model_text(annotated_terms: float = 0.0, tokenizers: Tokenizers = TOKENIZERS) -> ModelText:
    """The text side of a model, which may have been trained with annotated terms."""
    statistics = DataStatistics(99, 0.0, annotated_terms=annotated_terms)
    languages: dict[str, str | None] = {"source": None, "target": None}
    return ModelText(Vocabulary(SIZE, SIZE), tokenizers, languages, statistics)


def constraints_of(glossary: Any, *force: str) -> TextConstraints:
    constraints = text_constraints(
        {"glossary": glossary, "force": force}, model_text(), "beam search"
    )
    assert constraints is not None
    return constraints


def lacking(constraints: TextConstraints, source: str, target: str) -> list[str]:
    """The names of what a translation lacks."""
    required = constraints.constraints(source, is_first=True)
    return [each.name for each in AUTOMATA.unsatisfied(required, TOKENIZER.encode(target))]


def test_terms_are_whole_words() -> None:
    constraints = constraints_of({"dog": "Hund"})
    assert lacking(constraints, "a dog", "der Hund") == []
    assert lacking(constraints, "a dog", "der Hund, 3") == []
    assert lacking(constraints, "a dog", "die Hunde") == ['"Hund" for "dog"']
    assert lacking(constraints, "a cat", "die Hunde") == []
    inside = constraints_of([("dog", "Hund", "inside-words")])
    assert lacking(inside, "dogs", "Hundx") == []
    assert lacking(constraints, "dog", "Hundx") == ['"Hund" for "dog"']


def test_alternatives_and_sentence_beginnings() -> None:
    constraints = constraints_of({"dogs": "hund|hunde"})
    for target in ("hund", "hunde", "Hund", "Hunde und hund"):
        assert lacking(constraints, "dogs", target) == []
    assert lacking(constraints, "dogs", "die Häuser") == ['"hund|hunde" for "dogs"']
    sensitive = constraints_of([("dogs", "hund", "case-sensitive")])
    assert lacking(sensitive, "dogs", "Hund") == ['"hund" for "dogs"']


def test_terms_are_required_as_often_as_they_occur() -> None:
    constraints = constraints_of({"dog": "Hund", "hound": "Hund|Hunde"})
    assert lacking(constraints, "dog and dog", "Hund") == ['"Hund" for "dog"']
    assert lacking(constraints, "dog and dog", "Hund und Hund") == []
    assert lacking(constraints, "dog and hound", "Hund") == ['"Hund|Hunde" for "hound"']
    assert lacking(constraints, "dog and hound", "Hund und Hunde") == []


def test_terms_within_other_terms_do_not_count() -> None:
    constraints = constraints_of({"red house": "rotes Haus", "house": "Haus"})
    assert lacking(constraints, "a red house", "ein rotes Haus") == []
    assert lacking(constraints, "a red house, a house", "ein rotes Haus") == ['"Haus" for "house"']
    assert lacking(constraints, "a red house, a house", "ein Haus, ein rotes Haus") == []


def test_words_without_spaces() -> None:
    constraints = constraints_of({"cat": "猫"})
    assert lacking(constraints, "a cat", "猫好") == []
    assert lacking(constraints, "a cat", "die 猫") == []
    assert lacking(constraints, "a cat", "好") == ['"猫" for "cat"']


def test_every_alternative_has_the_segmentation_of_the_tokenizer() -> None:
    [constraint] = constraints_of({"x": "Hund|rotes Haus|€"}).constraints("x", is_first=True)
    for words in ("Hund", "rotes Haus", "Rotes Haus", "€"):
        assert tuple(TOKENIZER.encode(words)) in constraint.sequences
    assert all(constraint.sequences)


def test_forced_words_belong_to_the_first_segment() -> None:
    constraints = constraints_of(None, "Haus|Häuser", "Hund")
    names = [each.name for each in constraints.constraints("x", is_first=True)]
    assert names == ['"Haus|Häuser"', '"Hund"']
    assert constraints.constraints("x", is_first=False) == ()


def test_a_term_may_be_the_forced_word() -> None:
    constraints = constraints_of({"dog": "Hund", "red house": "rotes Haus"}, "Hund", "Haus")
    assert lacking(constraints, "a dog", "ein rotes Haus") == ['"Hund" for "dog"', '"Hund"']
    assert lacking(constraints, "dog, red house", "der Hund, ein rotes Haus") == []
    assert lacking(constraints, "dog and dog", "Hund und Haus") == ['"Hund" for "dog"']
    twice = constraints_of(None, "Hund", "Hund")
    assert lacking(twice, "x", "der Hund") == ['"Hund"']


def test_constraints_are_picklable() -> None:
    constraints = constraints_of({"dog": "Hund"})
    before = constraints.constraints("dog", is_first=True)
    assert pickle.loads(pickle.dumps(constraints)).constraints("dog", is_first=True) == before


def test_none_and_errors() -> None:
    assert text_constraints({}, model_text(), "sampling") is None
    assert text_constraints({"glossary": None, "force": ()}, model_text(), "CTC decoding") is None
    with pytest.raises(ConfigError, match=r"glossary .* no effect in sampling"):
        text_constraints({"glossary": {}}, model_text(), "sampling")
    with pytest.raises(ConfigError, match=r"forced word .* is empty"):
        text_constraints({"force": ("Hund|",)}, model_text(), "beam search")
    reverse = replace(TOKENIZERS, target=ReversedTokenizer(TOKENIZER))
    with pytest.raises(ConfigError, match="not supported for right-to-left models"):
        text_constraints({"force": ("Hund",)}, model_text(tokenizers=reverse), "beam search")

"""Glossaries are read from files and mappings, and their terms matched in texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.glossary import Glossary, alternatives
from regard.errors import ConfigError, DataError

LINES = """# a comment

dog|dogs\tHund|Hundes
hot dog\tHotdog
UN\tUNO\tcase-sensitive
schiff\tship\tinside-words
a\\|b\tx\\|y|z
C++\tC++
狗\tHund
"""


def matched(glossary: Glossary, text: str) -> list[str]:
    return [text[match.start : match.end] for match in glossary.matches(text)]


@pytest.fixture
def glossary(tmp_path: Path) -> Glossary:
    path = tmp_path / "terms.tsv"
    path.write_text(LINES, encoding="utf-8")
    return Glossary.read(path)


def test_terms_of_a_file(glossary: Glossary) -> None:
    terms = {term.source: term for term in glossary.terms}
    assert [*terms] == ["dog", "dogs", "hot dog", "UN", "schiff", "a|b", "C++", "狗"]
    assert terms["dog"].targets == terms["dogs"].targets == ("Hund", "Hundes")
    assert terms["a|b"].targets == ("x|y", "z")
    assert (terms["UN"].case_sensitive, terms["UN"].inside_words) == (True, False)
    assert (terms["schiff"].case_sensitive, terms["schiff"].inside_words) == (False, True)


def test_matches(glossary: Glossary) -> None:
    assert matched(glossary, "Dogs, a DOG and a hot  dog.") == ["Dogs", "DOG", "hot  dog"]
    assert matched(glossary, "dogma, bulldog, dog-like dog's") == ["dog", "dog"]
    assert matched(glossary, "the UN, un and UNO") == ["UN"]
    assert matched(glossary, "Raumschiffe und Schiff") == ["schiff", "Schiff"]
    assert matched(glossary, "a|b and C++, not C+") == ["a|b", "C++"]
    assert matched(glossary, "我有狗。") == ["狗"]
    assert matched(glossary, "") == []


def test_glossary_of_a_mapping_or_pairs() -> None:
    mapping = Glossary.of({"dog": "Hund|Hundes", "cat": ["Katze", "Kater"]})
    pairs = Glossary.of([("dog", ("Hund", "Hundes")), ("cat", "Katze|Kater")])
    assert mapping == pairs
    assert Glossary.of([("UN", "UNO", "case-sensitive")]).terms[0].case_sensitive
    assert Glossary.of({}).matches("a dog") == []


sources = st.text(alphabet="ab ", min_size=1, max_size=5).map(lambda text: " ".join(text.split()))


texts = st.text(alphabet="abc .", max_size=20)


@given(st.lists(sources.filter(bool), unique=True, max_size=4), texts)
def test_matches_are_those_of_an_alternation(terms: list[str], text: str) -> None:
    longest_first = sorted(terms, key=len, reverse=True)
    pattern = "|".join(rf"(?<!\w){source}(?!\w)" for source in longest_first).replace(" ", r"\s+")
    expected = [match.span() for match in re.finditer(pattern, text)] if terms else []
    matches = Glossary.of(dict.fromkeys(terms, "x")).matches(text)
    assert [(match.start, match.end) for match in matches] == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dog", "line 1 has 1 column,"),
        ("dog\tHund\t\t", "line 1 has 4 columns"),
        ("dog\t", "line 1: a term or an alternative is empty"),
        ("dog\tHund||Hunde", "is empty"),
        ("dog\tHund\tcase", "unknown flag 'case'. Use case-sensitive or inside-words"),
        ("dog\tHund\nDog\tKöter", "line 2: 'Dog' is already a source term.*Hund\\|Köter"),
    ],
)
def test_errors_of_files(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=message):
        Glossary.read(path)


@pytest.mark.parametrize("source", [3, [("dog",)], ["dog"], {"dog": 3}, {"dog": ["Hund", 3]}])
def test_errors_of_python_values(source: Any) -> None:
    with pytest.raises(ConfigError, match="glossary"):
        Glossary.of(source)


def test_alternatives_have_single_spaces() -> None:
    assert alternatives(r" rotes  Haus | a\|b ") == ["rotes Haus", "a|b"]

r"""Glossaries: terms with their translations, and where a text contains them.

A glossary file has a term per line: the source term, a tab, the target term, and optionally a tab
and flags separated by commas:

    dog             Hund|Hundes|Hunde
    UN              Vereinte Nationen       case-sensitive
    schiff          ship                    inside-words

`|` separates alternatives in both columns; `\|` is a vertical bar. Blank lines and lines that
begin with `#` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from regard.data.line_reader import read_lines
from regard.errors import ConfigError, DataError
from regard.text.segmentations import WITHOUT_SPACES, needs_boundary

CASE_SENSITIVE, INSIDE_WORDS = "case-sensitive", "inside-words"
_FLAGS = (CASE_SENSITIVE, INSIDE_WORDS)
_WORD = re.compile(rf"[{WITHOUT_SPACES}]|[^\W{WITHOUT_SPACES}]+|[^\w\s]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Term:
    """A source term and its translations; any of them is right."""

    source: str
    targets: tuple[str, ...]
    case_sensitive: bool = False
    inside_words: bool = False  # also inside longer words

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the source term; any whitespace matches its spaces."""
        return self._compile(self.source)

    @cached_property
    def target_pattern(self) -> re.Pattern[str]:
        """The pattern of the translations."""
        return self._compile(*self.targets)

    def _compile(self, *texts: str) -> re.Pattern[str]:
        patterns = (word_pattern(text, inside_words=self.inside_words) for text in texts)
        return re.compile("|".join(patterns), re.NOFLAG if self.case_sensitive else re.IGNORECASE)


class TermMatch(NamedTuple):
    """An occurrence of a source term in a text."""

    term: Term
    start: int
    end: int


@dataclass(frozen=True)
class Glossary:
    """Terms, and the search for them."""

    terms: tuple[Term, ...]

    @staticmethod
    def of(source: GlossarySource) -> Glossary:
        """A glossary from a file, or from terms with a translation or several each."""
        if isinstance(source, Glossary):
            return source
        if isinstance(source, str | Path):
            return Glossary.read(Path(source))
        if not isinstance(source, Mapping | Sequence):
            raise ConfigError(
                "glossary must be the path of a file, a dictionary such as {'dog': 'Hund'}, or a "
                f"list of pairs, not {type(source).__name__}."
            )
        rows = source.items() if isinstance(source, Mapping) else source
        return Glossary.from_rows(map(_python_row, enumerate(rows, 1)))

    @staticmethod
    def read(path: Path) -> Glossary:
        """Read a glossary file."""
        lines = enumerate(read_lines(path), 1)
        rows = (
            (f"{path}, line {number}", line.split("\t"))
            for number, line in lines
            if line.strip() and not line.startswith("#")
        )
        return Glossary.from_rows(rows)

    @staticmethod
    def from_rows(rows: Iterable[tuple[str, Sequence[str]]]) -> Glossary:
        """A glossary from rows of two or three columns, each with a description for messages."""
        terms: dict[tuple[str, bool], Term] = {}
        for where, columns in rows:
            for term in _parse(where, columns):
                source = term.source if term.case_sensitive else term.source.lower()
                known = terms.setdefault((source, term.case_sensitive), term)
                if known is not term:
                    raise DataError(
                        f"{where}: {term.source!r} is already a source term. Give all translations "
                        f"in one place: {'|'.join((*known.targets, *term.targets))}"
                    )
        return Glossary(tuple(terms.values()))

    def matches(self, text: str) -> list[TermMatch]:
        """The occurrences of terms in a text, from left to right, the longest first at a place."""
        matches: list[TermMatch] = []
        for start, terms in self._candidates(text):
            if matches and start < matches[-1].end:
                continue
            possible = ((term, term.pattern.match(text, start)) for term in terms)
            ends = [(match.end(), term) for term, match in possible if match]
            if ends:
                end, term = max(ends, key=itemgetter(0))
                matches.append(TermMatch(term, start, end))
        return matches

    def _candidates(self, text: str) -> Iterator[tuple[int, list[Term]]]:
        """Positions in a text, and the terms that may begin there."""
        by_word, by_letter = self._index
        words = _WORD.finditer(text)
        if not by_letter:
            yield from ((word.start(), by_word.get(word.group().lower(), [])) for word in words)
            return
        starts = {word.start(): by_word.get(word.group().lower(), []) for word in words}
        for start, letter in enumerate(text):
            yield start, starts.get(start, []) + by_letter.get(letter.lower(), [])

    @cached_property
    def _index(self) -> tuple[dict[str, list[Term]], dict[str, list[Term]]]:
        """Terms by their first word, and those inside words by their first letter."""
        by_word: dict[str, list[Term]] = {}
        by_letter: dict[str, list[Term]] = {}
        for term in self.terms:
            first = _WORD.match(term.source)
            assert first is not None, term
            if term.inside_words:
                by_letter.setdefault(term.source[0].lower(), []).append(term)
            else:
                by_word.setdefault(first.group().lower(), []).append(term)
        return by_word, by_letter


# A path, or terms with one or several translations each.
GlossarySource = (
    Glossary
    | str
    | Path
    | Mapping[str, str | Sequence[str]]
    | Sequence[Sequence[str | Sequence[str]]]
)


def word_pattern(words: str, *, inside_words: bool = False) -> str:
    """The pattern of words in a text: not inside longer words, and with any whitespace between."""
    pattern = r"\s+".join(map(re.escape, words.split()))
    if inside_words:
        return pattern
    left, right = (needs_boundary(letter) for letter in (words[0], words[-1]))
    return (r"(?<!\w)" if left else "") + pattern + (r"(?!\w)" if right else "")


def alternatives(text: str) -> list[str]:
    r"""The alternatives of a column, separated by vertical bars; `\|` is a vertical bar."""
    parts = re.split(r"(?<!\\)\|", text)
    return [" ".join(part.replace(r"\|", "|").split()) for part in parts]


def _python_row(numbered: tuple[int, object]) -> tuple[str, list[str]]:
    """The columns of an entry of a mapping or sequence."""
    number, entry = numbered
    where = f"glossary, entry {number}"
    if isinstance(entry, Sequence) and not isinstance(entry, str) and 2 <= len(entry) <= 3:
        source, target, *flags = entry
        if isinstance(target, Sequence) and not isinstance(target, str):
            target = "|".join(target) if all(isinstance(each, str) for each in target) else None
        if all(isinstance(column, str) for column in (source, target, *flags)):
            return where, [source, target, *flags]
    raise ConfigError(
        f"{where} is {entry!r}, but must be a source term and its translation, such as "
        "('dog', 'Hund'), ('dog', ['Hund', 'Hunde']) or ('UN', 'UNO', 'case-sensitive')."
    )


def _parse(where: str, columns: Sequence[str]) -> Iterator[Term]:
    """The terms of a row: one for each source alternative."""
    if not 2 <= len(columns) <= 3:
        raise DataError(
            f"{where} has {len(columns)} column{'s' * (len(columns) != 1)}, but must have a source "
            "term, a tab and a target term, and optionally a tab and flags."
        )
    if any(map(_SURROGATE.search, columns)):
        raise DataError(
            f"{where} contains an unpaired surrogate, which is not a valid character. Remove it."
        )
    sources, targets = map(alternatives, columns[:2])
    if not all(sources + targets):
        raise DataError(f"{where}: a term or an alternative is empty. Fill it in, or remove it.")
    flags = [flag.strip() for flag in columns[2].split(",")] if columns[2:] else []
    unknown = [flag for flag in flags if flag and flag not in _FLAGS]
    if unknown:
        raise DataError(f"{where}: unknown flag {unknown[0]!r}. Use {' or '.join(_FLAGS)}.")
    for source in sources:
        yield Term(
            source, tuple(dict.fromkeys(targets)), CASE_SENSITIVE in flags, INSIDE_WORDS in flags
        )

"""Words of a text, which tags surround, and the positions of subwords in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from regard.text.base import Tokenizer
from regard.text.term_marks import plain_offsets, strip_annotations

# A Chinese or Japanese character; a word, also with apostrophes or hyphens; any other character.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
    r"|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+(?:['’.,-][^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+)*"
    r"|\S"
)


class Word(NamedTuple):
    """A part of a text from `start` to `end`."""

    start: int
    end: int


def split_words(text: str, units: Sequence[Word] = ()) -> list[Word]:
    """The words and the punctuation of a text; together, they cover all but whitespace.

    `units` are parts of the text, in order, that are one word each.
    """
    words: list[Word] = []
    position = 0
    for unit in (*units, Word(len(text), len(text))):
        words += (Word(*match.span()) for match in _WORD.finditer(text, position, unit.start))
        if unit.start < unit.end:
            words.append(unit)
        position = unit.end
    return words


def word_indices(words: Sequence[Word], length: int) -> list[int]:
    """For each character of a text, the index of its word, or of the next for whitespace."""
    indices: list[int] = []
    for number, word in enumerate(words):
        indices += [number] * (word.end - len(indices))
    return indices + [max(len(words) - 1, 0)] * (length - len(indices))


def token_starts(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> list[int]:
    """Where the characters of each token begin in the text that the ids encode or decode to."""
    prefixes = tokenizer.decode_all([ids[:count] for count in range(1, len(ids) + 1)])
    if not prefixes:
        return []
    decoded = prefixes[-1]
    places = _places(decoded, text)
    starts = []
    end = 0
    for prefix in prefixes:
        start = min(end, len(decoded))
        while start < len(decoded) and decoded[start].isspace():
            start += 1
        starts.append(places[start])
        end = max(end, len(prefix))
    return starts


def _places(decoded: str, text: str) -> list[int]:
    """For each position of a decoded text, the place in a text that may have no annotated terms.

    The places of a term's translation are those of the term.
    """
    plain = strip_annotations(decoded)
    if plain == decoded or decoded == text:
        return offset_map(decoded, text)
    places = offset_map(plain, text)
    return [places[offset] for offset in plain_offsets(decoded)]


def offset_map(text: str, other: str) -> list[int]:
    """For each position of a text (and its end), the corresponding position in a similar text."""
    if text == other:
        return [*range(len(text) + 1)]
    places = [0] * (len(text) + 1)
    matcher = SequenceMatcher(None, text, other, autojunk=False)
    for _, first, last, start, end in matcher.get_opcodes():
        for position in range(first, last):
            places[position] = min(
                start + (position - first) * (end - start) // (last - first), len(other)
            )
    places[-1] = len(other)
    return places

"""Words of a text: where they start and end, in any script.

A word is a maximal run of letters, digits and marks, with apostrophes and hyphens inside it and
with separators inside numbers: "don't", "rot-weiß", "3.5". Chinese and Japanese characters and
punctuation marks are words of their own, as scripts without spaces have no other unit that does not
need a dictionary.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_IDEOGRAPHS = re.compile(
    r"[\u3040-\u30fa\u30fc-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_INSIDE_WORDS, _INSIDE_NUMBERS = "'’-‐", ".,"
# A word as a sequence of character classes, which `_class_of` returns.
_WORD = re.compile(r"i|[wd]+(?:j[wd]+|(?<=d)n(?=d)[wd]+)*|[^s]")


def word_spans(text: str) -> list[tuple[int, int]]:
    """The start and end of each word; together they cover all but the white space."""
    return [match.span() for match in _WORD.finditer("".join(map(_class_of, text)))]


@lru_cache(maxsize=2**16)
def _class_of(character: str) -> str:
    """s(pace), i(deograph), d(igit), w(ord), j(oins words), n(umber separator), or p(unctuation)"""
    if character.isspace():
        return "s"
    if _IDEOGRAPHS.match(character):
        return "i"
    if character.isdigit():
        return "d"
    if character in _INSIDE_WORDS:
        return "j"
    if character in _INSIDE_NUMBERS:
        return "n"
    return "p" if unicodedata.category(character)[0] in "PS" else "w"

"""Tags: a word before a source line that says what kind of line it is, such as "<bt>".

A tag is a word of the text like any other, so a person can type it; but it is learned as one
subword of its own, which no cut takes apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARK = re.compile(r"<pad>|<unk>|<s>|</s>|<0x[0-9a-f]{2}>", re.IGNORECASE)


def tagged(text: str, tag: str) -> str:
    """The text as a model with tags reads it; an empty tag is none."""
    return f"{tag} {text}" if tag else text


def tag_problems(tags: Iterable[str]) -> list[str]:
    """What is wrong with tags, a sentence each."""
    return [f"The tag {tag!r} {problem}." for tag in tags if (problem := _problem(tag))]


def _problem(tag: str) -> str | None:
    if not tag:
        return None
    if not tag.strip():
        return 'is nothing but spaces; use "" for no tag'
    if " " in tag or "▁" in tag or not tag.isprintable():
        return "must be one word, without spaces; use something like <bt>"
    if _MARK.fullmatch(tag):
        return "is a mark of the tokenizer; use another, like <bt>"
    return None

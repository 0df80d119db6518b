"""Source tags: a word before a source line that marks its origin, such as "<bt>".

A tag is part of the text, so users can type it, and is always tokenized as a single subword. The
target tag of a language, such as "<2de>", asks a model of several directions for a translation into
that language; it comes before other tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_RESERVED = re.compile(r"<pad>|<unk>|<s>|</s>|<0x[0-9a-f]{2}>", re.IGNORECASE)


def add_tag(text: str, tag: str) -> str:
    """The text with a tag before it; an empty tag adds nothing."""
    return f"{tag} {text}" if tag else text


def target_tag(language: str | None) -> str:
    """The tag of sources to translate into a language; None: no tag."""
    return "" if language is None else f"<2{language}>"


def language_problems(languages: Iterable[str | None]) -> list[str]:
    """Error messages for texts that are not language codes, such as "de" or "zh-Hans"."""
    return [
        f"The language code {code!r} is not of the form de, deu or zh-Hans."
        for code in dict.fromkeys(languages)
        if code is not None and not _LANGUAGE.fullmatch(code)
    ]


def tag_problems(tags: Iterable[str]) -> list[str]:
    """Error messages for invalid tags."""
    return [f"The tag {tag!r} {problem}." for tag in tags if (problem := _problem(tag))]


def _problem(tag: str) -> str | None:
    if not tag:
        return None
    if not tag.strip():
        return 'consists of whitespace only; use "" for no tag'
    if " " in tag or "▁" in tag or not tag.isprintable():
        return "must be one word, without spaces; use something like <bt>"
    if _RESERVED.fullmatch(tag):
        return "is a special token of the tokenizer; use another one, like <bt>"
    return None

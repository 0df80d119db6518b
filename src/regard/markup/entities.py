"""Character references such as `&eacute;` and `&#233;`."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

# In HTML, the semicolon is optional for some names.
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});?")
# Line boundaries of `splitlines`, which the model does not read.
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\x7f\ud800-\udfff]")


def html_characters(text: str) -> Iterator[tuple[str, str]]:
    """The characters of a text with the spelling of each; references are decoded as in HTML."""
    position = 0
    while match := _REFERENCE.search(text, position):
        yield from zip(*[text[position : match.start()]] * 2, strict=True)
        decoded = html.unescape(match[0])
        position = match.end()
        if len(decoded) == 1 and not _CONTROL.match(decoded):
            yield decoded, match[0]
        else:  # no reference, or one of several characters
            yield from zip(*[match[0]] * 2, strict=True)
    yield from zip(*[text[position:]] * 2, strict=True)

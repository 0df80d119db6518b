"""Plain text: its lines are blocks without markup, in which spans may be protected."""

from __future__ import annotations

import re

from regard.markup.block import Block, Spelling
from regard.markup.tokens import text_token

PLAIN = Spelling()
_LINE_BREAK = re.compile(r"(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")  # as in `splitlines`


def parse_plain(source: str) -> list[str | Block]:
    """The parts of a text: line breaks and blank lines to copy, and all other lines as blocks.

    Whitespace in a block is that of the line.
    """
    parts = filter(None, _LINE_BREAK.split(source))
    return [part if part.isspace() else _to_block(part) for part in parts]


def _to_block(line: str) -> Block:
    return Block(line, line, (*line,), (), PLAIN, (text_token(line),))

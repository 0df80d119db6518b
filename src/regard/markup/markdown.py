"""Markdown (CommonMark and GitHub): the blocks of a document or fragment.

Headings, paragraphs, list items, quotes and table cells are translated; front matter, code blocks
and link definitions are copied. HTML blocks are read as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from regard.markup.block import Block, Spelling
from regard.markup.html import html_tokens, is_block_tag, protect
from regard.markup.markdown_inline import inline_tokens, normalized_label
from regard.markup.tokens import Token, to_parts

_CONTAINER = re.compile(r"[ \t]*(?:>[ ]?|(?:[-+*]|\d{1,9}[.)])(?:[ \t]+|$)(?:\[[ xX]\][ \t]+)?)")
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}(?:[ \t]+|$)")
_HEADING_END = re.compile(r"(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r"[ \t]{0,3}(?:=+|-+)[ \t]*$")
_RULE = re.compile(r"[ \t]{0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_CELL_BORDER = re.compile(r"(?:^[ \t]*)?(?<!\\)\|")
_DEFINITION = re.compile(r"[ \t]{0,3}\[(?!\^)([^\[\]]+)\]:[ \t]*\S")
_FOOTNOTE = re.compile(r"[ \t]{0,3}\[\^[^\]\s]+\]:[ \t]*")
_HTML = re.compile(r"[ \t]{0,3}<(?:/?([a-zA-Z][a-zA-Z0-9]*)(?=[\s/>]|$)|[!?])")
_HTML_ENDS = (  # of blocks that do not end at a blank line
    ("<!--", "-->"), ("<?", "?>"), ("<pre", "</pre>"), ("<script", "</script>"),
    ("<style", "</style>"), ("<textarea", "</textarea>"),
)  # fmt: skip
# What would make the first words of a paragraph a heading, a list item or a quote.
_BLOCK_START = re.compile(
    r"(?P<before>#{0,5}|\d{1,9})(?P<mark>[#>+-](?=\s|$)|>|(?<=\d)[.)](?=\s|$))"
)
_SPELLING = Spelling(
    {**{character: f"\\{character}" for character in "\\`*_[]|~"}, "<": "&lt;"},
    _BLOCK_START,
    never_empty="*_~",
)


def parse_markdown(source: str, ignored: Collection[str]) -> list[str | Block]:
    """The parts of a Markdown document or fragment; `ignored` HTML elements are not translated."""
    return to_parts([*protect(_Scanner(source).tokens(), ignored)], _SPELLING)


@dataclass
class _Line:
    """A line: the prefix of lists and quotes, the content, and the line break."""

    prefix: str
    content: str
    end: str

    @property
    def raw(self) -> str:
        """The whole line."""
        return self.prefix + self.content + self.end


@dataclass
class _Paragraph:
    """Lines of text that are continued."""

    content: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)  # with the prefix of the next line


class _Scanner:
    """Reads lines, one block after the other."""

    def __init__(self, source: str) -> None:
        self._lines = [*map(_to_line, re.findall(r"[^\n]*\n|[^\n]+", source))]
        self._labels = {
            normalized_label(match[1])
            for line in self._lines
            if (match := _DEFINITION.match(line.content))
        }
        self._tokens: list[Token] = []
        self._paragraph = _Paragraph()
        self._position = 0
        self._list_indent = 0  # of the content of the last list item

    def tokens(self) -> list[Token]:
        """The tokens of all lines."""
        self._skip_front_matter()
        while self._position < len(self._lines):
            line = self._lines[self._position]
            if not self._read_block(line):
                self._add_to_paragraph(line)
                self._position += 1
        self._end_paragraph()
        return self._tokens

    def _copy(self, count: int) -> bool:
        """Copy some lines."""
        self._end_paragraph()
        lines = self._lines[self._position : self._position + count]
        self._tokens.append(Token("boundary", "".join(line.raw for line in lines)))
        self._position += count
        return True

    def _skip_front_matter(self) -> None:
        if not self._lines or self._lines[0].raw.rstrip() != "---":
            return
        for number, line in enumerate(self._lines[1:], 2):
            if line.raw.rstrip() in ("---", "..."):
                self._copy(number)
                return

    def _read_block(self, line: _Line) -> bool:
        """Read a block other than a paragraph, if one begins here."""
        content, is_new = line.content, not self._paragraph.content or _begins_item(line.prefix)
        if not content.strip() or (_UNDERLINE.match(content) and not is_new):
            return self._copy(1)
        if is_new and self._is_indented_code(line):
            return self._copy(1)
        if _FENCE.match(content):
            return self._copy(self._fence_length(content))
        if _RULE.match(content) or (is_new and _DEFINITION.match(content)):
            return self._copy(1)
        if heading := _HEADING.match(content):
            end = _HEADING_END.search(content, heading.end())
            assert end is not None
            return self._add_line(line, heading.end(), max(end.start(), heading.end()))
        if footnote := _FOOTNOTE.match(content):
            self._end_paragraph()
            self._tokens.append(Token("boundary", line.prefix + footnote[0]))
            self._lines[self._position] = _Line("", content[footnote.end() :], line.end)
            return bool(not content[footnote.end() :].strip() and self._copy(1)) or True
        if is_new and self._is_table(self._position):
            return self._add_table()
        return is_new and self._add_html(line)

    def _is_indented_code(self, line: _Line) -> bool:
        indent = len(re.match(r"[ \t]*", line.content)[0].expandtabs(4))  # type: ignore[index]
        if line.prefix.strip():
            self._list_indent = len(line.prefix)
        elif indent == 0:
            self._list_indent = 0
        return indent >= (0 if line.prefix.strip() else self._list_indent) + 4

    def _fence_length(self, content: str) -> int:
        opening = _FENCE.match(content)
        assert opening is not None
        closing = re.compile(rf"[ \t>]*{re.escape(opening[1][0])}{{{len(opening[1])},}}[ \t]*$")
        for count, line in enumerate(self._lines[self._position + 1 :], 2):
            if closing.match(line.prefix + line.content):
                return count
        return len(self._lines) - self._position

    def _add_line(self, line: _Line, start: int, end: int) -> bool:
        """A block of one line, of which only a part is text."""
        self._end_paragraph()
        self._tokens.append(Token("boundary", line.prefix + line.content[:start]))
        self._tokens += inline_tokens(line.content[start:end], self._labels)
        self._tokens.append(Token("boundary", line.content[end:] + line.end))
        self._position += 1
        return True

    def _is_table(self, position: int) -> bool:
        """Whether the line is the header of a table."""
        following = self._lines[position + 1 : position + 2]
        return (
            "|" in self._lines[position].content
            and bool(following)
            and "-" in following[0].content
            and _TABLE_RULE.match(following[0].content) is not None
        )

    def _add_table(self) -> bool:
        """A table, up to a line without columns."""
        self._end_paragraph()
        first = self._position
        while self._position < len(self._lines):
            line = self._lines[self._position]
            if "|" not in line.content:
                break
            if self._position == first + 1:
                self._copy(1)
                continue
            self._tokens.append(Token("boundary", line.prefix))
            start = 0
            for border in _CELL_BORDER.finditer(line.content):
                self._tokens += inline_tokens(line.content[start : border.start()], self._labels)
                self._tokens.append(Token("boundary", border[0]))
                start = border.end()
            self._tokens += inline_tokens(line.content[start:], self._labels)
            self._tokens.append(Token("boundary", line.end))
            self._position += 1
        return True

    def _add_html(self, line: _Line) -> bool:
        """A block of HTML, up to a blank line or to the end of an element."""
        match = _HTML.match(line.content)
        if match is None or (match[1] and not is_block_tag(match[1])):
            return False
        start = line.content.lstrip().lower()
        end = next((end for begin, end in _HTML_ENDS if start.startswith(begin)), None)
        count = 0
        for following in self._lines[self._position :]:
            if end is None and not following.content.strip():
                break
            count += 1
            if end is not None and end in following.content.lower():
                break
        self._end_paragraph()
        lines = self._lines[self._position : self._position + count]
        self._tokens.append(Token("boundary", lines[0].prefix))
        self._tokens += html_tokens("".join(line.raw for line in lines)[len(lines[0].prefix) :])
        self._tokens.append(Token("boundary", ""))
        self._position += count
        return True

    def _add_to_paragraph(self, line: _Line) -> None:
        if self._paragraph.content and not _begins_item(line.prefix):
            self._paragraph.breaks[-1] += line.prefix
        else:
            self._end_paragraph()
            self._tokens.append(Token("boundary", line.prefix))
        self._paragraph.content.append(line.content)
        self._paragraph.breaks.append(line.end)

    def _end_paragraph(self) -> None:
        if not self._paragraph.content:
            return
        breaks = self._paragraph.breaks
        tokens = inline_tokens("\n".join(self._paragraph.content), self._labels)
        self._tokens += _with_breaks(tokens, iter(breaks))
        self._tokens.append(Token("boundary", breaks[-1]))
        self._paragraph = _Paragraph()


def _to_line(raw: str) -> _Line:
    content = raw.rstrip("\r\n")
    end, position = raw[len(content) :], 0
    if not _RULE.match(content):
        while match := _CONTAINER.match(content, position):
            if match.end() == position or _RULE.match(content, position):
                break
            position = match.end()
    return _Line(content[:position], content[position:], end)


def _begins_item(prefix: str) -> bool:
    """Whether the prefix of a line has the marker of a list item."""
    return bool(prefix.replace(">", "").strip())


def _with_breaks(tokens: Sequence[Token], breaks: Iterator[str]) -> Iterator[Token]:
    """The tokens with line breaks as in the source, which begin with the prefixes of lines."""
    for token in tokens:
        if "\n" not in token.raw:
            yield token
            continue
        spelled = iter([next(breaks) for _ in range(token.raw.count("\n"))])
        characters = tuple(
            (c, next(spelled) if c == "\n" and token.kind == "text" else raw)
            for c, raw in token.characters
        )
        if token.kind == "text":
            raw = "".join(raw for _, raw in characters)
        else:
            first, *others = token.raw.split("\n")
            raw = first + "".join(next(spelled) + other for other in others)
        yield Token(token.kind, raw, token.name, characters, token.separates)

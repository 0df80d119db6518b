"""Paragraphs of Word documents: runs with formatting as text with inline tags, and back.

The most frequent formatting of a paragraph is that of its plain text. Each other formatting is an
element, and hyperlinks are elements that contain runs. Images, footnote marks and other objects are
empty elements. Fields such as references are copied as a whole, apart from hyperlinks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from regard.documents.document import Part
from regard.documents.inline import InlineContent, nested_pairs
from regard.documents.xml_tree import Element, etree, local_name

_NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",  # of "strict" documents
)
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_PROPERTIES = {"pPr", "rPr", "sdtPr", "sdtEndPr", "smartTagPr", "customXmlPr"}
_CONTAINERS = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "sdt", "dir", "bdo"}
# Positions in the source text that have no meaning in its translation.
_DROPPED = {"proofErr", "lastRenderedPageBreak", "softHyphen"}
_STARTS = {"bookmarkStart": "bookmark", "commentRangeStart": "comment", "permStart": "permission"}
_ENDS = {"bookmarkEnd": "bookmark", "commentRangeEnd": "comment", "permEnd": "permission"}
_FIELD = {"begin", "instruction", "separate", "end"}  # kinds of the parts of fields
# Properties that readers do not see; programs that convert PDF set the spacing of each run.
_INVISIBLE = {"lang", "noProof", "rPrChange", "webHidden", "specVanish", "spacing", "kern", "w"}

Kind = Literal[
    "text", "character", "empty", "break", "boundary", "container", "protected", "link",
    "begin", "instruction", "separate", "end", "range start", "range end",
]  # fmt: skip


class _Format(NamedTuple):
    """The formatting of a run; `key` is equal for runs that are displayed alike."""

    properties: Element  # or None
    key: bytes


_PLAIN = _Format(None, b"")


class _InRun(NamedTuple):
    """A child of a run."""

    format: _Format
    child: Element


Content = Element | _InRun


@dataclass(frozen=True)
class _Piece:
    """A part of the content of a paragraph or of a container in it."""

    kind: Kind
    contents: tuple[Content, ...]
    text: str = ""  # of a range: its name
    format: _Format = _PLAIN
    inner: tuple[_Piece, ...] = ()  # of a container or a link
    after: tuple[Content, ...] = ()  # of a link


class _Styled(NamedTuple):
    """An element of text in another formatting than the text around it."""

    format: _Format


class _Container(NamedTuple):
    """An element that contains runs, and the formatting of most of them."""

    element: Element
    format: _Format


class _Link(NamedTuple):
    """A hyperlink that is a field: what is before and after its text."""

    before: tuple[Content, ...]
    after: tuple[Content, ...]
    format: _Format


class WordParagraph:
    """A paragraph, as text to translate."""

    def __init__(self, element: Element) -> None:
        self._element = element
        self._content = InlineContent()
        pieces = _with_fields([*_pieces(element)])
        self._format = _main_format(pieces)
        _add(self._content, pieces, self._format)
        self.parts: list[Part] = self._content.parts()

    def write(self, text: str) -> None:
        """Replace the content by a translated text with tags."""
        _clear(self._element)
        stack: list[tuple[Element, _Format]] = [(self._element, self._format)]
        for event in self._content.events(text):
            parent, format = stack[-1]
            item = event.item
            if event.kind == "text":
                parent.append(_text_run(parent, format, event.text))
            elif event.kind == "empty":
                _append(parent, item)
            elif event.kind == "close":
                if isinstance(item, _Link):
                    _append(parent, item.after)
                stack.pop()
            elif isinstance(item, _Styled):
                stack.append((parent, item.format))
            elif isinstance(item, _Link):
                _append(parent, item.before)
                stack.append((parent, item.format))
            else:
                _append(parent, (item.element,))
                _clear(_inside(item.element))
                stack.append((_inside(item.element), item.format))


def word_name(element: Element) -> str:
    """The name of an element of WordprocessingML; empty for all others."""
    return local_name(element, _NAMESPACES.__contains__)


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if word_name(child) == name), None)


def _attribute(element: Element, name: str) -> str:
    namespace = etree().QName(element).namespace
    return element.get(f"{{{namespace}}}{name}") or ""


# From XML to pieces.


def _pieces(container: Element) -> Iterator[_Piece]:
    for child in container:
        name = word_name(child)
        if name in _PROPERTIES or name in _DROPPED or not isinstance(child.tag, str):
            continue
        if name == "r":
            yield from _run_pieces(child)
        elif name in _CONTAINERS or (name == "fldSimple" and _is_link(_attribute(child, "instr"))):
            inner = _with_fields([*_pieces(_inside(child))])
            yield _Piece("container", (child,), inner=(*inner,))
        elif name == "fldSimple":
            yield _Piece("protected", (child,), "".join(map(_text_of, _pieces(child))))
        elif name in _STARTS:
            yield _Piece("range start", (child,), _STARTS[name] + _attribute(child, "id"))
        elif name in _ENDS:
            yield _Piece("range end", (child,), _ENDS[name] + _attribute(child, "id"))
        else:
            yield _Piece("empty", (child,))


def _inside(container: Element) -> Element:
    """The element that has the content of a container."""
    content = _child(container, "sdtContent")
    return container if content is None else content


def _text_of(piece: _Piece) -> str:
    """The text of a piece that is displayed."""
    if piece.kind in ("container", "link"):
        return "".join(map(_text_of, piece.inner))
    return piece.text if piece.kind in ("text", "character", "protected") else ""


def _run_pieces(run: Element) -> Iterator[_Piece]:
    format = _format(_child(run, "rPr"))
    is_hidden = format.properties is not None and _is_on(_child(format.properties, "vanish"))
    for child in run:
        name = word_name(child)
        if name in _PROPERTIES or name in _DROPPED or not isinstance(child.tag, str):
            continue
        contents = (_InRun(format, child),)
        if name == "t" and not is_hidden:
            yield _Piece("text", contents, child.text or "", format)
        elif name == "noBreakHyphen":
            yield _Piece("character", contents, "-", format)
        elif name in ("tab", "ptab"):
            yield _Piece("boundary", contents)
        elif name in ("br", "cr"):
            is_line = _attribute(child, "type") in ("", "textWrapping")
            yield _Piece("break" if is_line else "boundary", contents)
        elif name == "fldChar":
            kinds: dict[str, Kind] = {"begin": "begin", "separate": "separate", "end": "end"}
            yield _Piece(kinds.get(_attribute(child, "fldCharType"), "boundary"), contents)
        elif name in ("instrText", "delInstrText"):
            yield _Piece("instruction", contents, child.text or "")
        else:
            yield _Piece("empty", contents)


def _is_on(setting: Element | None) -> bool:
    return setting is not None and _attribute(setting, "val") not in ("0", "false", "off")


def _format(properties: Element | None) -> _Format:
    if properties is None:
        return _PLAIN
    visible = [child for child in properties if not _is_invisible(child)]
    canonical = [etree().tostring(child, method="c14n", exclusive=True) for child in visible]
    return _Format(properties, b"".join(canonical))


def _is_invisible(setting: Element) -> bool:
    is_hint = word_name(setting) == "rFonts" and len(setting.attrib) == 1
    return word_name(setting) in _INVISIBLE or (is_hint and _attribute(setting, "hint") != "")


# Fields: begin, instruction, separator, result, end; other fields may be inside.


def _with_fields(pieces: Sequence[_Piece], *, may_link: bool = True) -> list[_Piece]:
    """The pieces with each complete field as one; what is left of others is a boundary."""
    ends = _field_ends(pieces)
    result: list[_Piece] = []
    position = 0
    while position < len(pieces):
        piece, end = pieces[position], ends.get(position)
        if end is not None:
            result.append(_field(pieces[position : end + 1], may_link=may_link))
            position = end
        else:
            result.append(replace(piece, kind="boundary") if piece.kind in _FIELD else piece)
        position += 1
    return result


def _field_ends(pieces: Sequence[_Piece]) -> dict[int, int]:
    """The position of the end of each complete field, by that of its beginning."""
    ends: dict[int, int] = {}
    begins: list[int] = []
    for position, piece in enumerate(pieces):
        if piece.kind == "begin":
            begins.append(position)
        elif piece.kind == "end" and begins:
            ends[begins.pop()] = position
    return ends


def _field(pieces: Sequence[_Piece], *, may_link: bool) -> _Piece:
    """A complete field; a hyperlink is one whose result is translated."""
    depth, middle, instruction = 0, len(pieces) - 1, ""
    for position, piece in enumerate(pieces):
        depth += {"begin": 1, "end": -1}.get(piece.kind, 0)
        if depth == 1 and piece.kind == "separate":
            middle = position
            break
        if depth == 1 and piece.kind == "instruction":
            instruction += piece.text
    inner = pieces[middle + 1 : -1]
    if may_link and inner and _is_link(instruction):
        before, after = _contents(pieces[: middle + 1]), pieces[-1].contents
        inner = _with_fields(inner, may_link=False)
        return _Piece("link", before, inner=(*inner,), after=after)
    return _Piece("protected", _contents(pieces), "".join(map(_text_of, inner)))


def _contents(pieces: Sequence[_Piece]) -> tuple[Content, ...]:
    """The XML of some pieces, in order."""
    return tuple(content for piece in pieces for content in piece.contents)


def _is_link(instruction: str) -> bool:
    return instruction.split()[:1] == ["HYPERLINK"]


# From pieces to text with tags.


def _main_format(pieces: Sequence[_Piece]) -> _Format:
    """The formatting of most of the text."""
    counts: Counter[bytes] = Counter()
    formats: dict[bytes, _Format] = {}
    for piece in pieces:
        if piece.kind == "text":
            counts[piece.format.key] += len(piece.text.strip())
            formats.setdefault(piece.format.key, piece.format)
    return formats[counts.most_common(1)[0][0]] if counts else _PLAIN


def _add(content: InlineContent, pieces: Sequence[_Piece], main: _Format) -> None:
    """Add pieces to the content of a paragraph."""
    marks = [(p.text, "start" in p.kind) if "range" in p.kind else None for p in pieces]
    ranges = nested_pairs(marks)
    ends = {end: start for start, end in ranges.items()}
    numbers: dict[int, int] = {}  # of open ranges, by the position of the start
    styled: tuple[int, bytes] | None = None  # the number and the formatting of the open element
    for position, piece in enumerate(pieces):
        key = piece.format.key
        if piece.kind in ("text", "character"):
            is_blank = piece.text.isspace()
            if styled and key != styled[1] and not is_blank:
                content.close(styled[0])
                styled = None
            if styled is None and key != main.key and not is_blank:
                styled = content.open(_Styled(piece.format)), key
        elif piece.kind not in ("empty", "break", "protected") and styled:
            content.close(styled[0])
            styled = None
        if position in ranges:
            numbers[position] = content.open(
                _Link(piece.contents, pieces[ranges[position]].contents, main)
            )
        elif position in ends:
            content.close(numbers.pop(ends[position]))
        else:
            _add_piece(content, piece)
    if styled:
        content.close(styled[0])


def _add_piece(content: InlineContent, piece: _Piece) -> None:
    if piece.kind == "text":
        content.add_text(piece.text)
    elif piece.kind == "character":
        content.add_character(piece.text, piece.contents)
    elif piece.kind == "boundary":
        content.add_boundary(piece.contents)
    elif piece.kind == "protected":
        content.add_protected(piece.contents, piece.text)
    elif piece.kind in ("container", "link"):
        main = _main_format(piece.inner)
        [*before] = piece.contents
        is_link = piece.kind == "link"
        item = _Link((*before,), piece.after, main) if is_link else _Container(before[0], main)
        number = content.open(item)
        _add(content, piece.inner, main)
        content.close(number)
    else:
        content.add_empty(piece.contents, separates=piece.kind == "break")


# From text with tags to XML.


def _clear(container: Element) -> None:
    """Remove the content of a paragraph or container, but not its properties."""
    for child in [*container]:
        if word_name(child) not in _PROPERTIES:
            container.remove(child)


def _append(parent: Element, contents: Sequence[Content]) -> None:
    for content in contents:
        if isinstance(content, _InRun):
            run = _new_run(parent, content.format)
            # A copy: an element that stands for a character may be repeated.
            is_repeated = word_name(content.child) == "noBreakHyphen"
            run.append(deepcopy(content.child) if is_repeated else content.child)
            parent.append(run)
        else:
            content.tail = None
            parent.append(content)


def _text_run(parent: Element, format: _Format, text: str) -> Element:
    run = _new_run(parent, format)
    child = etree().SubElement(run, _tag(parent, "t"))
    child.text = text
    child.set(_SPACE, "preserve")
    return run


def _new_run(parent: Element, format: _Format) -> Element:
    run = parent.makeelement(_tag(parent, "r"))
    if format.properties is not None:
        run.append(deepcopy(format.properties))
    return run


def _tag(element: Element, name: str) -> str:
    """The name in the namespace of an element of WordprocessingML."""
    return f"{{{etree().QName(element).namespace}}}{name}"

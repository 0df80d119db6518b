"""Subtitles: SubRip (.srt) and WebVTT (.vtt).

Only the text of cues changes. The lines of a cue are joined, and its translation is wrapped again;
lines that begin with a dash are those of different speakers. A sentence that spans several cues is
translated as a whole and divided in proportion to its parts in the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil

from regard.documents.document import (
    Document,
    DocumentText,
    Part,
    ReadOptions,
    block_texts,
    source_of,
    with_translations,
)
from regard.documents.encodings import decode
from regard.documents.line_wrapping import split_by_weight, visible_width, wrap
from regard.errors import DataError
from regard.markup.block import Block, Spelling
from regard.markup.entities import html_characters
from regard.markup.tokens import Token, text_token, to_parts

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMING = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?=\s|\Z)")
_DASH = re.compile(r"[ \t]*[-\u2010-\u2015][ \t]*(?=\S)")
_MARKUP = re.compile(
    r"<(?P<slash>/?)(?P<name>[a-zA-Z]+)[^<>]*>"
    r"|<[\d:.]+>|\{\\[^{}]*\}|[\u266a\u266b]+"  # times of karaoke, styles of SubStation, notes
)
_SENTENCE_END = re.compile(r"[.!?:;…。！？\"»”)\]]$")
_LINE_WIDTH = 42  # characters, if all lines of the source are shorter
_MAX_JOINED = 5  # cues
_SRT, _VTT = Spelling(), Spelling({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


@dataclass(frozen=True)
class _Utterance:
    """What a speaker says in a cue."""

    number: int  # of the first line
    source: str  # without the last line break
    end: str  # the last line break
    parts: list[Part]

    @property
    def plain(self) -> Block | None:
        """The only block, if there is nothing else and no markup in it."""
        parts = [part for part in self.parts if part != ""]
        is_plain = len(parts) == 1 and isinstance(parts[0], Block) and not parts[0].nodes
        return parts[0] if is_plain else None  # type: ignore[return-value]


@dataclass(frozen=True)
class _Sentence:
    """One utterance, or several cues whose text is translated together."""

    utterances: list[_Utterance]
    parts: list[Part]


def read_srt(content: bytes, options: ReadOptions) -> Document:
    """SubRip subtitles."""
    text = decode(content, options.name).text
    if text.strip() and not any(map(_TIMING.match, text.splitlines())):
        raise DataError(
            f"{options.name} has no subtitles: no line has times such as 00:00:01,000 --> "
            "00:00:02,500. Check the file and its suffix."
        )
    return _read(content, options, _SRT)


def read_vtt(content: bytes, options: ReadOptions) -> Document:
    """WebVTT subtitles."""
    if not re.match(r"WEBVTT(?=\s|\Z)", decode(content, options.name).text):
        raise DataError(
            f'{options.name} does not begin with "WEBVTT". Check the file and its suffix.'
        )
    return _read(content, options, _VTT)


def _read(content: bytes, options: ReadOptions, spelling: Spelling) -> Document:
    decoded = decode(content, options.name)
    pieces = [*_pieces(re.findall(r"[^\n]*\n|[^\n]+", decoded.text), spelling)]
    sentences = _joined_sentences([piece for piece in pieces if isinstance(piece, _Utterance)])
    texts: list[DocumentText] = []
    for sentence in sentences:
        texts += block_texts(sentence.parts, sentence.utterances[0].number)
    layout = _Layout.of(decoded.text, sentences)

    def write(translations: Sequence[str], language: str | None) -> bytes:
        remaining = iter(translations)
        lines = [text for each in sentences for text in layout.texts(each, remaining)]
        following = iter(lines)
        text = "".join(
            next(following) + piece.end if isinstance(piece, _Utterance) else piece
            for piece in pieces
        )
        return decoded.encode(text, options.name)

    return Document(texts, write)


def _pieces(lines: Sequence[str], spelling: Spelling) -> Iterator[str | _Utterance]:
    """Lines to copy, and the texts of cues, which follow a line with times."""
    position = 0
    while position < len(lines):
        yield lines[position]
        position += 1
        if not _TIMING.match(lines[position - 1]):
            continue
        end = position
        while end < len(lines) and lines[end].strip() and not _TIMING.match(lines[end]):
            end += 1
        is_next_cue = end < len(lines) and _TIMING.match(lines[end])
        if is_next_cue and end > position and lines[end - 1].strip().isdigit():
            end -= 1  # there is no blank line before the number of the next cue
        yield from _utterances(lines[position:end], position + 1, spelling)
        position = end


def _utterances(lines: Sequence[str], number: int, spelling: Spelling) -> Iterator[_Utterance]:
    """The lines of a cue, divided where a line begins with a dash."""
    starts = [index for index, line in enumerate(lines) if index == 0 or _DASH.match(line)]
    for start, end in pairwise([*starts, len(lines)]):
        text = "".join(lines[start:end])
        source = text.rstrip("\r\n")
        parts = to_parts([*_tokens(source)], spelling)
        parts = [part if isinstance(part, str) else _on_one_line(part) for part in parts]
        yield _Utterance(number + start, source, text[len(source) :], parts)


def _tokens(text: str) -> Iterator[Token]:
    dash = _DASH.match(text)
    position = dash.end() if dash else 0
    if position:
        yield Token("boundary", text[:position])
    for match in _MARKUP.finditer(text, position):
        yield _text(text[position : match.start()])
        position = match.end()
        name = (match["name"] or "").lower()
        if not name or name == "br":
            yield Token("empty", match[0], separates=name == "br")
        else:
            yield Token("close" if match["slash"] else "open", match[0], name)
    yield _text(text[position:])


def _text(raw: str) -> Token:
    return text_token(raw, html_characters(raw))


def _on_one_line(block: Block) -> Block:
    """A block whose line breaks are spaces in its translation."""
    return replace(block, raws=tuple(" " if raw.isspace() else raw for raw in block.raws))


def _joined_sentences(utterances: Sequence[_Utterance]) -> list[_Sentence]:
    """The utterances, with those joined that continue a sentence."""
    sentences: list[_Sentence] = []
    for utterance in utterances:
        last = sentences[-1] if sentences else None
        joined = _join(last, utterance) if last else None
        if last and joined:
            sentences[-1] = _Sentence([*last.utterances, utterance], [joined])
        else:
            sentences.append(_Sentence([utterance], utterance.parts))
    return sentences


def _join(sentence: _Sentence, following: _Utterance) -> Block | None:
    """The text of a sentence and of the next cue, if that continues it without markup."""
    if sentence.utterances[-1].plain is None or len(sentence.utterances) == _MAX_JOINED:
        return None
    [block] = [part for part in sentence.parts if isinstance(part, Block)]
    other = following.plain
    if other is None or _SENTENCE_END.search(block.text) or not other.text[0].islower():
        return None
    raws = (*block.raws, " ", *other.raws)
    text = f"{block.text} {other.text}"
    return replace(block, raw=f"{block.raw} {other.raw}", text=text, raws=raws)


@dataclass(frozen=True)
class _Layout:
    """How the lines of translations are wrapped."""

    newline: str
    width: int  # of the longest line

    @staticmethod
    def of(text: str, sentences: Sequence[_Sentence]) -> _Layout:
        """The layout of a file."""
        sources = [each.source for sentence in sentences for each in sentence.utterances]
        widths = [visible_width(line) for source in sources for line in source.splitlines()]
        newline = "\r\n" if "\r\n" in text else "\n"
        return _Layout(newline, max([_LINE_WIDTH, *widths]))

    def texts(self, sentence: _Sentence, translations: Iterator[str]) -> list[str]:
        """The text of each cue of a sentence."""
        translation = with_translations(sentence.parts, translations)
        sources = [utterance.source for utterance in sentence.utterances]
        if translation == source_of(sentence.parts):
            return sources
        divided = [translation]
        if len(sources) > 1:
            divided = split_by_weight(translation, [*map(len, sources)])
        return [*map(self._wrapped, sources, divided)]

    def _wrapped(self, source: str, translation: str) -> str:
        text = re.sub(r"[ \t\r\n]+", " ", translation).strip()
        width = visible_width(text)
        needed, preferred = ceil(width / self.width), ceil(2 * width / self.width)
        count = max(needed, min(len(source.splitlines()), preferred))
        return self.newline.join(wrap(text, count))

"""The text step of markup: tags are taken out of a text and put back into its translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.markup.block import Block
from regard.markup.html import parse_html
from regard.markup.markdown import parse_markdown
from regard.markup.restore import restore
from regard.markup.words import offset_map, token_starts
from regard.markup.xml import check_well_formed, parse_xml
from regard.pipelines.segments import NeedsAlignment, RankedTranslation, TranslatedText
from regard.text.tokenizer import Tokenizers

Markup = Literal["html", "xml", "markdown"]


@dataclass(frozen=True)
class ParsedText:
    """A text as parts to copy and blocks to translate, which are lines of the prepared text."""

    parts: list[str | Block]

    @property
    def blocks(self) -> list[Block]:
        """The blocks, in order."""
        return [part for part in self.parts if isinstance(part, Block)]

    @property
    def text(self) -> str:
        """The plain text of the blocks, one per line."""
        return "\n".join(block.text for block in self.blocks)


@dataclass(frozen=True)
class AlignedText(ParsedText, NeedsAlignment):
    """A parsed text with markup that is placed by word alignment."""


@dataclass(frozen=True)
class MarkupStep:
    """Takes the markup out of texts, and puts it back into their translations."""

    markup: Markup
    ignored: tuple[str, ...]
    tokenizers: Tokenizers

    def check(self, text: str, where: str) -> None:
        """Raise a DataError, which begins with `where`, if the text is malformed."""
        if self.markup == "xml":
            check_well_formed(text, where)

    def prepare(self, text: str) -> tuple[str, ParsedText]:
        """The plain text of all blocks, one per line."""
        parsed = ParsedText(parse(self.markup, text, self.ignored))
        if any(block.has_markup for block in parsed.blocks):
            parsed = AlignedText(parsed.parts)
        return parsed.text, parsed

    def restore(self, translated: TranslatedText, context: ParsedText) -> TranslatedText:
        """The translations with the markup of the text."""
        ranked = [
            part._replace(text=self._with_markup(part, context, translated.source))
            for part in translated.ranked
        ]
        return translated._replace(ranked=ranked)

    def _with_markup(self, ranked: RankedTranslation, parsed: ParsedText, source: str) -> str:
        blocks = parsed.blocks
        if not blocks:
            return "".join(part for part in parsed.parts if isinstance(part, str))
        translations = ranked.text.split("\n")
        assert len(translations) == len(blocks), "a translation has a line for each line"
        links = [*self._links(ranked, parsed.text, source)]
        text = ""
        start = source_start = 0  # of the block
        remaining = iter(translations)
        for part in parsed.parts:
            if isinstance(part, str):
                text += part
                continue
            translation = next(remaining)
            end, source_end = start + len(translation), source_start + len(part.text)
            inside = [
                (place - start, source_place - source_start)
                for place, source_place in links
                if start <= place < end and source_start <= source_place < source_end
            ]
            text += restore(part, translation, inside)
            start, source_start = end + 1, source_end + 1
        return text

    def _links(
        self, ranked: RankedTranslation, text: str, source: str
    ) -> Iterator[tuple[int, int]]:
        """Characters of the translation and of the prepared text that begin aligned subwords.

        `source` is the text that the model read. It differs from the prepared text, and the
        translation from those of the segments, if other steps have changed them.
        """
        joined = "\n".join(segment.text for segment in ranked.segments)
        are_unchanged = all(
            ranked.text.startswith(segment.text, segment.start) for segment in ranked.segments
        )
        places = None if are_unchanged else offset_map(joined, ranked.text)
        source_places = None if source == text else offset_map(source, text)
        joined_start = 0
        for segment in ranked.segments:
            hypothesis = segment.hypothesis
            starts = token_starts(self.tokenizers.target, hypothesis.tokens, segment.text)
            source_starts = token_starts(
                self.tokenizers.source, segment.source, segment.source_text
            )
            for start, position in zip(
                starts,
                alignment_or_diagonal(hypothesis.alignment, len(starts), len(source_starts)),
                strict=True,
            ):
                place = segment.start + start if places is None else places[joined_start + start]
                source_place = segment.source_start + source_starts[position]
                yield place, source_place if source_places is None else source_places[source_place]
            joined_start += len(segment.text) + 1


def parse(markup: Markup, text: str, ignored: Sequence[str]) -> list[str | Block]:
    """The parts of a text in a markup language."""
    if markup == "xml":
        return parse_xml(text, ignored)
    names = {name.lower() for name in ignored}
    return parse_html(text, names) if markup == "html" else parse_markdown(text, names)


def alignment_or_diagonal(alignment: list[int] | None, tokens: int, sources: int) -> list[int]:
    """The source token of each token; without an alignment, that at the same relative position."""
    if alignment is not None:
        return alignment
    return [min(sources - 1, position * sources // tokens) for position in range(tokens)]

"""The text step of markup and protected spans.

Tags are taken out of a text and put back into its translations. Protected spans are read by the
model, or stand-ins for them, and put back as they were. Both are placed by word alignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from regard.markup.block import Block, BlockText
from regard.markup.html import parse_html
from regard.markup.markdown import parse_markdown
from regard.markup.plain import parse_plain
from regard.markup.protection import Protection
from regard.markup.restore import NO_SPANS, Restored, restore_block
from regard.markup.words import offset_map, token_starts
from regard.markup.xml import check_well_formed, parse_xml
from regard.pipelines.segments import NeedsAlignment, RankedTranslation, TranslatedText
from regard.text.tokenizer import Tokenizers

Markup = Literal["html", "xml", "markdown"]
_MAX_LISTED = 3  # spans in a warning


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

    markup: Markup | None
    ignored: tuple[str, ...]
    tokenizers: Tokenizers
    protection: Protection | None = None

    def check(self, text: str, where: str) -> None:
        """Raise a DataError, which begins with `where`, if the text is malformed."""
        if self.markup == "xml" and not isinstance(text, BlockText):
            check_well_formed(text, where)

    def prepare(self, text: str) -> tuple[str, ParsedText | None]:
        """The plain text of all blocks, one per line; no context if nothing was changed."""
        parts = self._parts(text)
        protected = [*chain.from_iterable(map(self._protected, parts))]
        if self.markup is None and protected == parts:
            return text, None
        parsed = ParsedText(protected)
        if any(block.has_markup for block in parsed.blocks):
            parsed = AlignedText(protected)
        return parsed.text, parsed

    def _parts(self, text: str) -> list[str | Block]:
        if isinstance(text, BlockText):
            return [text.block]
        return parse_plain(text) if self.markup is None else parse(self.markup, text, self.ignored)

    def _protected(self, part: str | Block) -> list[str | Block]:
        if self.protection is None or isinstance(part, str):
            return [part]
        return self.protection.protect(part)

    def restore(self, translated: TranslatedText, context: ParsedText | None) -> TranslatedText:
        """The translations with the markup of the text."""
        if context is None:
            return translated
        restored = [
            self._with_markup(part, context, translated.source) for part in translated.ranked
        ]
        ranked = [
            part._replace(text="".join(each.text for each in parts))
            for part, parts in zip(translated.ranked, restored, strict=True)
        ]
        return translated._replace(ranked=ranked, step_warnings=(*_warnings(restored[0]),))

    def _with_markup(
        self, ranked: RankedTranslation, parsed: ParsedText, source: str
    ) -> list[Restored]:
        """The parts of the text with their translations."""
        blocks = parsed.blocks
        if not blocks:
            return [Restored(part) for part in parsed.parts if isinstance(part, str)]
        translations = ranked.text.split("\n")
        assert len(translations) == len(blocks), "a translation has a line for each line"
        links = [*self._links(ranked, parsed.text, source)]
        is_aligned = all(part.hypothesis.alignment is not None for part in ranked.segments)
        finder = NO_SPANS if self.protection is None else self.protection.unmarked
        restored: list[Restored] = []
        start = source_start = 0  # of the block
        remaining = iter(translations)
        for part in parsed.parts:
            if isinstance(part, str):
                restored.append(Restored(part))
                continue
            translation = next(remaining)
            end, source_end = start + len(translation), source_start + len(part.text)
            inside = [
                (place - start, source_place - source_start)
                for place, source_place in links
                if start <= place < end and source_start <= source_place < source_end
            ]
            restored.append(
                restore_block(part, translation, inside, is_aligned=is_aligned, finder=finder)
            )
            start, source_start = end + 1, source_end + 1
        return restored

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
        target = self.tokenizers.target
        for segment in ranked.segments:
            tokens, alignment = segment.hypothesis.tokens, segment.hypothesis.alignment
            if target.in_text_order is not target:
                tokens, alignment = tokens[::-1], alignment and alignment[::-1]
            starts = token_starts(target.in_text_order, tokens, segment.text)
            source_starts = token_starts(
                self.tokenizers.source, segment.request.segment, segment.source_text
            )
            for start, position in zip(
                starts,
                alignment_or_diagonal(alignment, len(starts), len(source_starts)),
                strict=True,
            ):
                place = segment.start + start if places is None else places[joined_start + start]
                source_place = segment.source_start + source_starts[position]
                yield place, source_place if source_places is None else source_places[source_place]
            joined_start += len(segment.text) + 1


def _warnings(restored: Sequence[Restored]) -> Iterator[str]:
    """What may be wrong with protected spans; each continues a sentence about a translation."""
    uncertain = [span for each in restored for span in each.uncertain]
    if uncertain:
        yield f"may have {_listed(uncertain)} in the wrong place"
    repeated = [span for each in restored for span in each.repeated]
    if repeated:
        yield f"repeated {_listed(repeated)}, of which the surplus was removed"


def _listed(spans: Iterable[str]) -> str:
    """The first distinct spans as a list."""
    names = [f'"{span}"' for span in dict.fromkeys(spans)]
    if len(names) > _MAX_LISTED:
        names[_MAX_LISTED:] = [f"{len(names) - _MAX_LISTED} others"]
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


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

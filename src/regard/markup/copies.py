"""Copies of protected text in a translation: where they are, and what each is a copy of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.markup.block import Block, Node, all_nodes
from regard.markup.placement import UNALIGNED
from regard.markup.words import Word
from regard.text.segmentations import needs_boundary

_SEPARATORS = ".,:/'’-"  # that make one number of two


class Copy(NamedTuple):
    """A copy of protected text in a translation, which is one word."""

    word: Word
    text: str  # what the model reads, or the original
    original: str  # empty for elements


def protected_nodes(block: Block) -> list[Node]:
    """The protected nodes with text, in order."""
    nodes = [node for node in all_nodes(block.nodes) if node.kind == "protected"]
    return [node for node in nodes if block.text[node.start : node.end].strip()]


def protected_word(block: Block, node: Node) -> Word:
    """The text of a protected node without surrounding whitespace, which is one word."""
    text = block.text[node.start : node.end]
    start = node.start + len(text) - len(text.lstrip())
    return Word(start, start + len(text.strip()))


@dataclass(frozen=True)
class Copies:
    """The copies of the protected texts of a block in a translation, in order."""

    block: Block
    copies: list[Copy]

    @staticmethod
    def find(block: Block, translation: str) -> Copies:
        """Find the copies; at each place, the longest."""
        return Copies(block, [*_find(_texts(block), translation)])

    def align(
        self, source: Sequence[Word], target: Sequence[Word], alignment: list[int]
    ) -> set[int]:
        """Align a copy to each protected word, and nothing else; returns the ids of these nodes.

        Of several copies, an aligned one is chosen, or they are taken in order; copies of elements
        only if there are as many as elements.
        """
        indices = {start: index for index, (start, _) in enumerate(source)}
        places = {start: index for index, (start, _) in enumerate(target)}
        free: dict[str, list[int]] = {}
        for copy in self.copies:
            free.setdefault(copy.text, []).append(places[copy.word.start])
        pairs: dict[int, int] = {}
        nodes = {indices[protected_word(self.block, n).start]: n for n in self._nodes}
        for is_read in (True, False):  # copies of what the model read, then of the originals
            by_text: dict[str, list[int]] = {}
            for index, node in nodes.items():
                texts = _copied_texts(self.block, node)
                if index not in pairs:
                    by_text.setdefault(texts[0] if is_read else texts[-1], []).append(index)
            for text, unpaired in by_text.items():
                are_spans = all(nodes[index].original is not None for index in unpaired)
                new = _pairs(unpaired, free.get(text, []), alignment, by_order=are_spans)
                free[text] = [place for place in free.get(text, []) if place not in new.values()]
                pairs |= new
        for place, index in enumerate(alignment):
            if index in pairs:
                alignment[place] = UNALIGNED
        for index, place in pairs.items():
            alignment[place] = index
        return {id(nodes[index]) for index in pairs}

    def surplus(self, covered: set[int]) -> list[Copy]:
        """The copies of spans that are not covered, beyond those that the source has unprotected.

        `covered` are the starts of the words of the translation that spans replace.
        """
        rest = [c for c in self.copies if c.original and c.word.start not in covered]
        if not rest:
            return []
        protected = {protected_word(self.block, node) for node in self._nodes}
        unprotected = Counter(
            copy.text
            for copy in _find(_texts(self.block), self.block.text)
            if copy.word not in protected
        )
        surplus = []
        for copy in rest:
            unprotected[copy.text] -= 1
            if unprotected[copy.text] < 0:
                surplus.append(copy)
        return surplus

    @property
    def _nodes(self) -> list[Node]:
        return protected_nodes(self.block)


def _copied_texts(block: Block, node: Node) -> tuple[str, ...]:
    """What copies of a node look like: what the model reads, or if it differs, the original."""
    read = block.text[slice(*protected_word(block, node))]
    return tuple(dict.fromkeys((read, node.original or read)))


def _texts(block: Block) -> dict[str, tuple[str, bool]]:
    """The texts of copies, each with the original, and whether a copy must be a whole word.

    It need not be if the protected text is part of a word itself.
    """
    texts: dict[str, tuple[str, bool]] = {}
    for node in protected_nodes(block):
        for text in _copied_texts(block, node):
            original, is_limited = texts.get(text, ("", True))
            is_limited = is_limited and not is_inside_word(block, node, text)
            texts[text] = original or node.original or "", is_limited
    return texts


def _find(texts: Mapping[str, tuple[str, bool]], text: str) -> Iterator[Copy]:
    """The copies of texts in a text, in order; the longest at each place."""
    lengths: dict[str, set[int]] = {}
    for each in texts:
        lengths.setdefault(each[0], set()).add(len(each))
    longest_first = {first: sorted(values, reverse=True) for first, values in lengths.items()}
    end = 0
    for start, character in enumerate(text):
        for length in longest_first.get(character, ()) if start >= end else ():
            part = text[start : start + length]
            if part not in texts:
                continue
            original, is_limited = texts[part]
            if not (is_limited and is_continued(text, start, start + len(part))):
                end = start + len(part)
                yield Copy(Word(start, end), part, original)
                break


def _pairs(
    words: Sequence[int], copies: Sequence[int], alignment: Sequence[int], *, by_order: bool
) -> dict[int, int]:
    """Source words and the copies of them: aligned ones first, then in order."""
    pairs: dict[int, int] = {}
    for copy in copies:
        if alignment[copy] in words:
            pairs.setdefault(alignment[copy], copy)
    others = [word for word in words if word not in pairs]
    rest = [copy for copy in copies if copy not in pairs.values()]
    if by_order or len(others) == len(rest):
        pairs.update(zip(others, rest, strict=False))
    return pairs


def is_inside_word(block: Block, node: Node, text: str) -> bool:
    """Whether a text in place of a protected node would be part of a word or a number."""
    start, end = protected_word(block, node)
    before, after = block.text[max(start - 2, 0) : start], block.text[end : end + 2]
    return is_continued(before + text + after, len(before), len(before) + len(text))


def is_continued(text: str, start: int, end: int) -> bool:
    """Whether a word or a number continues before or after a part of a text."""
    return continues_before(text, start) or continues_after(text, start, end)


def continues_before(text: str, start: int) -> bool:
    """Whether the character at `start` is inside a word or a number."""
    before = text[start - 1] if start else ""
    if before and before in _SEPARATORS and text[start].isdigit():
        return start > 1 and text[start - 2].isdigit()
    return _is_in_word(text[start]) and _is_in_word(before)


def continues_after(text: str, start: int, end: int) -> bool:
    """Whether a word or a number continues after a part of a text; letters may follow a number."""
    last, after = text[end - 1], text[end : end + 1]
    if after and after in _SEPARATORS and last.isdigit():
        return text[end + 1 : end + 2].isdigit()
    if after.isalpha() and not any(map(str.isalpha, text[start:end])):
        return False
    return _is_in_word(last) and _is_in_word(after)


def _is_in_word(character: str) -> bool:
    return character == "_" or (character != "" and needs_boundary(character))

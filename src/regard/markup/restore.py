"""The translation of a block with its markup."""

from __future__ import annotations

from bisect import bisect, bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress, pairwise
from typing import NamedTuple

from regard.markup.block import Block, Node, all_nodes
from regard.markup.copies import Copies, Copy, protected_nodes, protected_word
from regard.markup.placement import UNALIGNED, Placed, Placement, SourceSpan
from regard.markup.plain import PLAIN
from regard.markup.words import Word, split_words, word_indices
from regard.markup.writer import Writer
from regard.text.protected import SpanFinder

Links = Sequence[tuple[int, int]]  # a character of the translation and one of the plain text


NO_SPANS = SpanFinder()


class Restored(NamedTuple):
    """A translation with its markup, and the protected spans that may need a look."""

    text: str
    uncertain: tuple[str, ...] = ()  # placed neither by a copy nor by word alignment
    repeated: tuple[str, ...] = ()  # each copy that was removed


def restore(block: Block, translation: str, links: Links) -> str:
    """The translation of a block's plain text, with the markup of the block.

    `links` align the translation's subwords, each given by its first character. A translation that
    equals the plain text has the markup at the same place.
    """
    return restore_block(block, translation, links).text


def restore_block(
    block: Block,
    translation: str,
    links: Links,
    *,
    is_aligned: bool = True,
    finder: SpanFinder = NO_SPANS,
) -> Restored:
    """`restore`, with the protected spans that may be at a wrong place, or were repeated.

    `is_aligned`: whether the links are from word alignment rather than from relative positions.
    `finder` finds the spans of this block, which must remain spans in the translation.
    """
    if block.spelling == PLAIN and not block.nodes and "".join(block.raws) == block.text:
        return Restored(translation)
    repeated: list[str] = []
    while translation != block.text:
        aligned = _AlignedWords(block, translation, links)
        surplus = aligned.surplus()
        if not surplus:
            text = _guarded(block, aligned.write(finder))
            return Restored(text, aligned.uncertain(is_aligned=is_aligned), (*repeated,))
        repeated += (copy.original for copy in surplus)
        translation, links = _without(translation, links, [copy.word for copy in surplus])
    return Restored(block.raw, (), (*repeated,))


class _AlignedWords:
    """The words of a block and of its translation, and the nodes placed in the translation."""

    def __init__(self, block: Block, translation: str, links: Links) -> None:
        self._block, self._translation = block, translation
        self._copies = Copies.find(block, translation)
        protected = [protected_word(block, node) for node in protected_nodes(block)]
        source = split_words(block.text, protected)
        copied = " ".join(block.text[start:end] for start, end in protected)
        target = split_words(translation, [copy.word for copy in self._copies.copies])
        alignment = align_words(block.text, source, translation, target, links, copied)
        source, target, alignment = _split_copied_words(
            block, source, translation, target, alignment
        )
        self._copied = self._copies.align(source, target, alignment)
        self._source, self._target, self._alignment = source, target, alignment
        whole = SourceSpan(0, len(source))
        placement = Placement(alignment, _source_spans(block, source))
        self._placed = placement.place(block.nodes, whole, 0, len(target))

    def surplus(self) -> list[Copy]:
        """The copies of spans that would remain in the translation beside the spans themselves.

        As many copies may remain as the source has of them outside of spans.
        """
        covered = {
            self._target[index].start
            for placed in _all_placed(self._placed)
            if placed.node.kind == "protected"
            for index in range(placed.start, placed.end)
        }
        return self._copies.surplus(covered)

    def uncertain(self, *, is_aligned: bool) -> tuple[str, ...]:
        """The spans that were placed neither by a copy nor by word alignment."""
        return tuple(
            node.original
            for node, start, end, _ in _all_placed(self._placed)
            if node.original is not None
            and not (id(node) in self._copied and start < end)
            and not (is_aligned and start < end)
        )

    def write(self, finder: SpanFinder) -> str:
        """The translation with its markup."""
        words = self._source, self._translation, self._target, self._alignment
        return Writer(self._block, *words, finder).write(self._placed)


def _all_placed(placed: Iterable[Placed]) -> Iterator[Placed]:
    for each in placed:
        yield each
        yield from _all_placed(each.children)


def _without(
    translation: str, links: Links, words: Sequence[Word]
) -> tuple[str, list[tuple[int, int]]]:
    """A translation without some words and the whitespace before them, and its links."""
    kept = [True] * len(translation)
    for start, end in words:
        first = len(translation[:start].rstrip())
        last = end if first else len(translation) - len(translation[end:].lstrip())
        kept[first:last] = [False] * (last - first)
    places = [*accumulate(kept, initial=0)]
    text = "".join(compress(translation, kept))
    return text, [(places[place], source) for place, source in links if kept[place]]


def _guarded(block: Block, text: str) -> str:
    """The text without a beginning that would change the kind of the block, as of a list item."""
    pattern = block.spelling.block_start
    match = None if pattern is None else pattern.match(text)
    if match is None:
        return text
    return text[: match.start("mark")] + "\\" + text[match.start("mark") :]


def align_words(
    text: str,
    source: Sequence[Word],
    translation: str,
    target: Sequence[Word],
    links: Links,
    protected: str = "",
) -> list[int]:
    """The index of the source word of each target word.

    Most subwords of a word decide. Punctuation and numbers are aligned to their copies, unless they
    may be from the `protected` text, which is not divided into words.
    """
    if not source or not target:
        return [UNALIGNED] * len(target)
    source_of, target_of = word_indices(source, len(text)), word_indices(target, len(translation))
    votes: list[dict[int, int]] = [{} for _ in target]
    for place, source_place in links:
        if place < len(translation) and source_place < len(text):
            counts = votes[target_of[place]]
            word = source_of[source_place]
            counts[word] = counts.get(word, 0) + 1
    alignment = [
        max(counts, key=lambda word: (counts[word], -word)) if counts else UNALIGNED
        for counts in votes
    ]
    exact = _exact_matches(text, source, translation, target)
    for j, i in exact.items():
        if i != UNALIGNED or translation[slice(*target[j])] not in protected:
            alignment[j] = i
    return alignment


def _exact_matches(
    text: str, source: Sequence[Word], translation: str, target: Sequence[Word]
) -> dict[int, int]:
    """Source words of punctuation and numbers; punctuation without a counterpart is unaligned."""
    matches: dict[int, int] = {}
    places = _places_without_letters(text, source)
    for word, positions in _places_without_letters(translation, target).items():
        counterparts = places.get(word, [])
        if len(counterparts) == len(positions):
            matches.update(zip(positions, counterparts, strict=True))
        elif not any(character.isdigit() for character in word):
            for j in positions:
                place = j * len(source) / len(target)
                nearest = min(counterparts, key=lambda i: abs(i - place), default=UNALIGNED)
                matches[j] = nearest
    return matches


def _places_without_letters(text: str, words: Sequence[Word]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index, (start, end) in enumerate(words):
        if not any(character.isalpha() for character in text[start:end]):
            places.setdefault(text[start:end], []).append(index)
    return places


def _split_copied_words(
    block: Block,
    source: Sequence[Word],
    translation: str,
    target: Sequence[Word],
    alignment: Sequence[int],
) -> tuple[list[Word], list[Word], list[int]]:
    """Words with a tag inside, such as H<sub>2</sub>O, split at it where they are copied."""
    tags = sorted({place for node in all_nodes(block.nodes) for place in (node.start, node.end)})
    copies = {i: j for j, i in reversed([*enumerate(alignment)]) if i != UNALIGNED}
    cuts: dict[int, list[int]] = {}
    for i, (start, end) in enumerate(source):
        inside = tags[bisect(tags, start) : bisect_left(tags, end)]
        if inside and i in copies:
            first, last = target[copies[i]]
            if translation[first:last] == block.text[start:end]:
                cuts[i] = [place - start for place in inside]
    if not cuts:
        return [*source], [*target], [*alignment]
    new_source, firsts = _split(source, cuts)
    new_target, new_firsts = _split(target, {copies[i]: cut for i, cut in cuts.items()})
    new_alignment: list[int] = []
    for i, first, end in zip(
        alignment, new_firsts, [*new_firsts[1:], len(new_target)], strict=True
    ):
        for piece in range(end - first):  # of a copy, each piece is aligned to its own
            new_alignment.append(UNALIGNED if i == UNALIGNED else firsts[i] + piece)
    return new_source, new_target, new_alignment


def _split(words: Sequence[Word], cuts: dict[int, list[int]]) -> tuple[list[Word], list[int]]:
    """The words after cuts inside some of them, and the index of the first piece of each."""
    pieces: list[Word] = []
    firsts = []
    for index, (start, end) in enumerate(words):
        firsts.append(len(pieces))
        places = [start, *(start + cut for cut in cuts.get(index, [])), end]
        pieces += [Word(*pair) for pair in pairwise(places)]
    return pieces, firsts


def _source_spans(block: Block, source: Sequence[Word]) -> dict[int, SourceSpan]:
    return {id(node): _covered(node, source) for node in all_nodes(block.nodes)}


def _covered(node: Node, words: Sequence[Word]) -> SourceSpan:
    """The words of a node: those of which it contains at least half, but at least one."""
    first = bisect(words, node.start, key=lambda word: word.end)
    if node.start == node.end:
        inside = first < len(words) and words[first].start < node.start
        return SourceSpan(first + inside, first + inside)
    last = first
    while last < len(words) and words[last].start < node.end:
        last += 1
    overlaps = {
        i: 2 * (min(words[i].end, node.end) - max(words[i].start, node.start))
        - (words[i].end - words[i].start)
        for i in range(first, last)
    }
    if not overlaps:
        return SourceSpan(first, first)
    halves = [i for i, overlap in overlaps.items() if overlap >= 0]
    halves = halves or [max(overlaps, key=lambda i: overlaps[i])]
    return SourceSpan(halves[0], halves[-1] + 1)

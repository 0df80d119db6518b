"""The translation of a block with its markup."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from regard.markup.block import Block, Node, all_nodes
from regard.markup.placement import UNALIGNED, Placement, SourceSpan
from regard.markup.words import Word, split_words, word_indices
from regard.markup.writer import Writer

Links = Sequence[tuple[int, int]]  # a character of the translation and one of the plain text


def restore(block: Block, translation: str, links: Links) -> str:
    """The translation of a block's plain text, with the markup of the block.

    `links` align the translation's subwords, each given by its first character. A translation that
    equals the plain text has the markup at the same place.
    """
    if translation == block.text:
        return block.raw
    source, target = split_words(block.text), split_words(translation)
    alignment = align_words(block.text, source, translation, target, links)
    source, target, alignment = _split_copied_words(block, source, translation, target, alignment)
    _align_copies(block, source, translation, target, alignment)
    spans = _source_spans(block, source)
    whole = SourceSpan(0, len(source))
    placed = Placement(alignment, spans).place(block.nodes, whole, 0, len(target))
    text = Writer(block, source, translation, target, alignment).write(placed)
    return _guarded(block, text)


def _guarded(block: Block, text: str) -> str:
    """The text without a beginning that would change the kind of the block, as of a list item."""
    pattern = block.spelling.block_start
    match = None if pattern is None else pattern.match(text)
    if match is None:
        return text
    return text[: match.start("mark")] + "\\" + text[match.start("mark") :]


def align_words(
    text: str, source: Sequence[Word], translation: str, target: Sequence[Word], links: Links
) -> list[int]:
    """The index of the source word of each target word.

    Most subwords of a word decide. Punctuation and numbers are aligned to their copies.
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
    return [exact.get(j, i) for j, i in enumerate(alignment)]


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
    tags = {place for node in all_nodes(block.nodes) for place in (node.start, node.end)}
    copies = {i: j for j, i in reversed([*enumerate(alignment)]) if i != UNALIGNED}
    cuts: dict[int, list[int]] = {}
    for i, (start, end) in enumerate(source):
        inside = sorted(place for place in tags if start < place < end)
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


def _align_copies(
    block: Block,
    source: Sequence[Word],
    translation: str,
    target: Sequence[Word],
    alignment: list[int],
) -> None:
    """Align copies of the content of protected elements to it, and nothing else."""
    target_words = [translation[start:end] for start, end in target]
    for node in all_nodes(block.nodes):
        if node.kind != "protected" or node.start == node.end:
            continue
        span = _covered(node, source)
        words = [block.text[start:end] for start, end in source[span.start : span.end]]
        starts = [
            j
            for j in range(len(target) - len(words) + 1)
            if words and target_words[j : j + len(words)] == words
        ]
        if len(starts) != 1:
            continue
        for j, i in enumerate(alignment):
            if span.start <= i < span.end:
                alignment[j] = UNALIGNED
        for offset in range(len(words)):
            alignment[starts[0] + offset] = span.start + offset


def _source_spans(block: Block, source: Sequence[Word]) -> dict[int, SourceSpan]:
    return {id(node): _covered(node, source) for node in all_nodes(block.nodes)}


def _covered(node: Node, words: Sequence[Word]) -> SourceSpan:
    """The words of a node: those of which it contains at least half, but at least one."""
    first = next((i for i, word in enumerate(words) if word.end > node.start), len(words))
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

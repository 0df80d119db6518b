"""Where a sentence ends, and how a long text falls into pieces that a model can take.

Every function here keeps all characters: the pieces, joined, are the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# What may stand before a full stop without ending a sentence, beside single letters, letters with
# full stops between them (U.S., z. B.) and ordinals (am 3. Oktober).
_ABBREVIATIONS = re.compile("mr|mrs|ms|dr|prof|st|vs|fig|bzw|ca|nr|str|hr|fr|mme|mlle|cf|vgl|usw")
_INITIALS = re.compile(r"([^\W\d]\.)*[^\W\d]")
_ORDINAL = re.compile(r"\d{1,2}")

# A stop (with closing quotes or brackets) and then space; or a full-width stop, which needs none.
# (Begun at the first stop of a row only: a line of a megabyte of dots would take hours otherwise.)
_STOP = re.compile(
    r"""(?<![.!?…])[.!?…]+["'”’»)\]]*\s+(?=[\w"'“„«¿¡(\[])|[。！？]+[”’」』）]*\s*"""
)
_ANY_STOP = re.compile("[.!?…。！？]")
_LAST_WORD = 20  # characters to look back for an abbreviation; all are shorter


def sentences(text: str) -> list[str]:
    """The text cut after each sentence end; spaces stay with the sentence before them."""
    first = _ANY_STOP.search(text)
    if first is None or first.end() == len(text):  # as most are, and quickly seen
        return [text]
    pieces: list[str] = []
    begin = 0
    for stop in _STOP.finditer(text):
        last = text[max(begin, stop.start() - _LAST_WORD) : stop.end()].split()[-1]
        if stop.group()[0] in "。！？" or not _goes_on(last, text[stop.end()]):
            pieces.append(text[begin : stop.end()])
            begin = stop.end()
    if begin < len(text) or not pieces:
        pieces.append(text[begin:])
    return pieces


def _goes_on(last_word: str, next_letter: str) -> bool:
    """Whether the sentence goes on after a stop: before a small letter, after an abbreviation."""
    if next_letter.islower():
        return True
    word = last_word.lstrip("(\"'“„«[").lower()
    if not word.endswith("."):
        return False
    word = word.rstrip(".")
    kinds = (_ABBREVIATIONS, _INITIALS, _ORDINAL) if next_letter.isalpha() else (_ABBREVIATIONS,)
    return any(kind.fullmatch(word) for kind in kinds)


def pieces_within(text: str, fits: Callable[[str], bool]) -> tuple[list[str], bool]:
    """The text in pieces that fit: whole sentences, as many as fit into one piece.

    Also tells whether a sentence itself had to be cut, which is worth a notice.
    """
    if fits(text):
        return [text], False
    pieces: list[str] = []
    was_cut = False
    for sentence in sentences(text):
        if pieces and fits(pieces[-1] + sentence):
            pieces[-1] += sentence
        elif fits(sentence):
            pieces.append(sentence)
        else:
            pieces += _cut(sentence, fits)
            was_cut = True
    return pieces, was_cut


def _cut(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Cut at the last space before the limit, or in a word where there is none."""
    pieces: list[str] = []
    begin, size = 0, 1
    while begin < len(text):
        size = _longest(text, begin, size, fits)  # about as long as the piece before
        end = begin + size
        if end < len(text):
            space = max(text.rfind(mark, begin, end) for mark in " \t，、")
            end = space + 1 if space > begin and text[begin:space].strip() else end
        pieces.append(text[begin:end])
        begin = end
    return pieces


def _longest(text: str, begin: int, guess: int, fits: Callable[[str], bool]) -> int:
    """How many characters from `begin` on still fit (at least one), searched around a guess.

    Steps that double lead to a size that fits and one that does not; bisection does the rest.
    """

    def fit(size: int) -> bool:
        return size <= 1 or fits(text[begin : begin + size])

    whole = len(text) - begin
    size, step = min(guess, whole), 1
    if fit(size):
        low = size
        while (high := min(low + step, whole)) > low and fit(high):
            low, step = high, 2 * step
    else:
        high = size
        while not fit(low := max(high - step, 1)):
            high, step = low, 2 * step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low

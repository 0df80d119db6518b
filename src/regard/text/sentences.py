"""Sentence splitting, and splitting of long texts into segments that fit into a model.

All characters are kept: the concatenated segments are the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# Words before a full stop that does not end a sentence, in addition to single letters, letters with
# full stops between them (U.S., z. B.) and ordinals (am 3. Oktober).
_ABBREVIATIONS = re.compile("mr|mrs|ms|dr|prof|st|vs|fig|bzw|ca|nr|str|hr|fr|mme|mlle|cf|vgl|usw")
_INITIALS = re.compile(r"([^\W\d]\.)*[^\W\d]")
_ORDINAL = re.compile(r"\d{1,2}")

# A stop (with closing quotes or brackets) and then space; or a full-width stop, which needs none.
# A match starts at the first stop of a run only: long runs would take quadratic time otherwise.
_STOP = re.compile(
    r"""(?<![.!?…])[.!?…]+["'”’»)\]]*\s+(?=[\w"'“„«¿¡(\[])|[。！？]+[”’」』）]*\s*"""
)
_ANY_STOP = re.compile("[.!?…。！？]")
_MAX_ABBREVIATION = 20  # characters; all abbreviations are shorter


def split_sentences(text: str) -> list[str]:
    """Split a text after each sentence end; whitespace belongs to the sentence before it."""
    first = _ANY_STOP.search(text)
    if first is None or first.end() == len(text):  # fast path: most texts are one sentence
        return [text]
    segments: list[str] = []
    begin = 0
    for stop in _STOP.finditer(text):
        last = text[max(begin, stop.start() - _MAX_ABBREVIATION) : stop.end()].split()[-1]
        if stop.group()[0] in "。！？" or not _sentence_continues(last, text[stop.end()]):
            segments.append(text[begin : stop.end()])
            begin = stop.end()
    if begin < len(text) or not segments:
        segments.append(text[begin:])
    return segments


def _sentence_continues(last_word: str, next_letter: str) -> bool:
    """Whether a sentence continues after a stop: before lowercase or after an abbreviation."""
    if next_letter.islower():
        return True
    word = last_word.lstrip("(\"'“„«[").lower()
    if not word.endswith("."):
        return False
    word = word.rstrip(".")
    patterns = (_ABBREVIATIONS, _INITIALS, _ORDINAL) if next_letter.isalpha() else (_ABBREVIATIONS,)
    return any(pattern.fullmatch(word) for pattern in patterns)


def split_to_fit(text: str, fits: Callable[[str], bool]) -> tuple[list[str], bool]:
    """Split a text into segments that fit, each of as many whole sentences as possible.

    The second value is whether a single sentence had to be split.
    """
    if fits(text):
        return [text], False
    segments: list[str] = []
    was_split = False
    for sentence in split_sentences(text):
        if segments and fits(segments[-1] + sentence):
            segments[-1] += sentence
        elif fits(sentence):
            segments.append(sentence)
        else:
            segments += _split_sentence(sentence, fits)
            was_split = True
    return segments, was_split


def _split_sentence(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split at the last space before the limit, or within a word if there is none."""
    segments: list[str] = []
    begin, size = 0, 1
    while begin < len(text):
        size = _max_fitting(text, begin, size, fits)  # probably close to the previous size
        end = begin + size
        if end < len(text):
            space = max(text.rfind(separator, begin, end) for separator in " \t，、")
            end = space + 1 if space > begin and text[begin:space].strip() else end
        segments.append(text[begin:end])
        begin = end
    return segments


def _max_fitting(text: str, begin: int, initial_size: int, fits: Callable[[str], bool]) -> int:
    """The largest number of characters from `begin` on that fit (at least one).

    Exponential search from `initial_size` brackets the result, and bisection finds it.
    """

    def fit(size: int) -> bool:
        return size <= 1 or fits(text[begin : begin + size])

    remaining = len(text) - begin
    size, step = min(initial_size, remaining), 1
    if fit(size):
        low = size
        while (high := min(low + step, remaining)) > low and fit(high):
            low, step = high, 2 * step
    else:
        high = size
        while not fit(low := max(high - step, 1)):
            high, step = low, 2 * step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if fit(middle) else (low, middle)
    return low

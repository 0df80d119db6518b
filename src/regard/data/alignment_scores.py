"""Alignment scores: how well the words of a sentence pair explain each other.

The score of a pair is the mean log-prob of a word given the other side, by a word aligner that is
trained on the same pairs; of both directions, the lower one counts. A pair whose sides say
different things scores low in both directions, a truncated one in the direction of the full side.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable

import numpy as np

from regard.data.aligner import BidirectionalAligner, Floats
from regard.data.rows import Rows

# A character of Chinese, Japanese or a script of Southeast Asia, which have no spaces, or a run of
# other letters and digits. Punctuation is no word: it says little about the meaning.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; all of it if it consists of punctuation."""
    return _WORD.findall(text.lower()) or [text]


class WordRows:
    """Collects lines as rows of word ids."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids, self._offsets = array("i"), array("q", [0])

    def append(self, line: str) -> None:
        """Add a line."""
        numbers = self._numbers
        self._ids.extend(numbers.setdefault(word, len(numbers)) for word in split_words(line))
        self._offsets.append(len(self._ids))

    def rows(self) -> Rows:
        """The lines as rows."""
        return Rows(np.array(self._ids, np.int32), np.array(self._offsets, np.int64))


def alignment_scores(pairs: Iterable[tuple[str, str]]) -> Floats:
    """The score of each pair of texts, at most 0."""
    sides = WordRows(), WordRows()
    for pair in pairs:
        for side, text in zip(sides, pair, strict=True):
            side.append(text)
    source, target = (side.rows() for side in sides)
    aligner = BidirectionalAligner.train(source, target)
    return np.minimum(
        aligner.forward.mean_log_probs(source, target),
        aligner.backward.mean_log_probs(target, source),
    )

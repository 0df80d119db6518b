"""Confidence estimation: the probability that each word of a translation is correct.

The probability of a word is the product of the probabilities of its tokens, given the source and
the tokens before it. Calibration (`regard calibrate`) maps it to the fraction of words with this
probability that validation data confirm. The confidence of a text is the mean over its words: the
expected fraction of correct words.

This module does not import PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, zip_longest
from pathlib import Path

from regard.data.calibration import (
    CALIBRATION,
    Calibration,
    PlattScaling,
    read_calibration_file,
)
from regard.decoding.text_config import TextConfig
from regard.notices import Notice
from regard.text.base import Tokenizer
from regard.text.words import word_spans


@dataclass(frozen=True)
class WordConfidence:
    """A word of a translation, where it is in the text, and the probability that it is correct."""

    text: str
    confidence: float
    start: int  # in characters
    end: int


def text_confidence(words: Sequence[WordConfidence]) -> float | None:
    """The mean confidence of the words; None if there are none."""
    return sum(word.confidence for word in words) / len(words) if words else None


@dataclass(frozen=True)
class ConfidenceEstimator:
    """Computes confidences from the log-probs of tokens; pickled for worker processes."""

    tokenizer: Tokenizer
    scaling: PlattScaling
    minimum: float  # translations with a lower confidence are marked for review

    def words(
        self, tokens: Sequence[int], log_probs: Sequence[float], text: str, start: int = 0
    ) -> list[WordConfidence]:
        """The words of the text of these tokens, at `start` in a longer text."""
        tokenizer = self.tokenizer.in_text_order
        if tokenizer is not self.tokenizer:  # of a right-to-left model
            tokens, log_probs = tokens[::-1], log_probs[: len(tokens)][::-1]
        spans = word_spans(text)
        ends = token_ends(tokens, text, tokenizer)
        totals = word_log_probs(spans, ends, log_probs[: len(ends)])
        return [
            WordConfidence(
                text[begin:end], self.scaling(math.exp(min(total, 0))), start + begin, start + end
            )
            for (begin, end), total in zip(spans, totals, strict=True)
        ]


def confidence_estimator(
    config: TextConfig,
    paths: Sequence[Path],
    tokenizer: Tokenizer,
    stored: Callable[[], Calibration | None],
    notice: Notice,
) -> ConfidenceEstimator:
    """The estimator for models, with a notice if they are not calibrated.

    `stored` returns the calibration in the model folder.
    """
    scaling, file = PlattScaling(), config.calibration
    calibration = read_calibration_file(file, paths) if file is not None else stored()
    if calibration is not None:
        scaling = calibration.word_scaling
    elif len(paths) > 1:
        notice(
            "Confidences are not calibrated. An ensemble is calibrated by `regard calibrate` with "
            "--out, and --calibration reads the file."
        )
    else:
        notice(
            f"Confidences are not calibrated: {paths[0]} has no {CALIBRATION}. `regard calibrate` "
            "writes it."
        )
    return ConfidenceEstimator(tokenizer, scaling, config.min_confidence)


def token_ends(tokens: Sequence[int], text: str, tokenizer: Tokenizer) -> list[int]:
    """Where the text of each token ends in the text of all of them, in increasing order.

    Each prefix of the tokens is decoded, which holds for every tokenizer: bytes form characters,
    and some tokenizers remove spaces before punctuation.
    """
    prefixes = tokenizer.decode_all([tokens[:length] for length in range(1, len(tokens))])
    common = (_common_length(to_single_line(prefix), text) for prefix in prefixes)
    return [*accumulate(common, max), len(text)] if tokens else []


def _common_length(prefix: str, text: str) -> int:
    """The number of characters with which both begin."""
    if text.startswith(prefix):  # the common case
        return len(prefix)
    return next(n for n, pair in enumerate(zip_longest(prefix, text)) if pair[0] != pair[1])


def word_log_probs(
    spans: Sequence[tuple[int, int]], ends: Sequence[int], log_probs: Sequence[float]
) -> list[float]:
    """The sum of the log-probs of the tokens of each word.

    A token that overlaps several words counts in each of them; one without letters, such as a space
    or a part of a character, in the word after it, or in the last.
    """
    totals = [0.0] * len(spans)
    if not spans:
        return totals
    pending, start, first = 0.0, 0, 0
    for end, log_prob in zip(ends, log_probs, strict=True):
        pending += log_prob
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        last = first
        while start < end and last < len(spans) and spans[last][0] < end:
            totals[last] += pending
            last += 1
        if last > first:
            pending = 0.0
        start = end
    totals[-1] += pending
    return totals


def realigned_words(words: Sequence[WordConfidence], text: str) -> list[WordConfidence]:
    """The words in a text that was changed after decoding, such as by text steps.

    A word that replaces others has their lowest confidence. Words that were only inserted, such as
    markup, were not generated by the model and have none.
    """
    spans = word_spans(text)
    if [(word.start, word.end) for word in words] == spans and all(
        text[word.start : word.end] == word.text for word in words
    ):
        return [*words]
    texts = [text[start:end] for start, end in spans]
    return [
        replace(word, text=texts[new], start=spans[new][0], end=spans[new][1])
        for new, word in _matches([*words], texts)
    ]


def _matches(
    words: Sequence[WordConfidence], texts: Sequence[str]
) -> Iterator[tuple[int, WordConfidence]]:
    """The indices of new words, and the old word that each corresponds to."""
    matcher = SequenceMatcher(None, [word.text for word in words], texts, autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(range(new_first, new_last), words[first:last], strict=True)
        elif kind == "replace":
            lowest = min(words[first:last], key=lambda word: word.confidence)
            yield from ((new, lowest) for new in range(new_first, new_last))


def to_single_line(text: str) -> str:
    """The text without line breaks and NULs, which byte fallback can generate."""
    return " ".join(text.replace("\0", "").splitlines())

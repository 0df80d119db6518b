"""Splitting texts into segments for translation, and joining the translated segments.

Line breaks, empty lines and the whitespace around a segment are preserved. A line is split into
sentences if it is longer than the training data, or if lines with several sentences were rare in it
(the model would translate only the first sentence).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from regard.decoding.backend import Hypothesis, Request, SearchResult, length_normalized
from regard.models.folder import DataStatistics, ModelFolder
from regard.text.sentences import split_sentences, split_to_fit

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # the line boundaries of `splitlines`
_RARE = 0.005  # proportion of training lines with several sentences
_CHUNK = 128  # texts that are encoded or decoded in one call
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")


class Segment(NamedTuple):
    """Text to translate (possibly empty) and the text around it, which is copied."""

    before: str
    text: str
    after: str


class Segments(NamedTuple):
    """The segments of a text, in order."""

    parts: list[Segment]
    was_split: bool  # whether a sentence was longer than the limit


def split_text(
    text: str, count_subwords: Callable[[str], int], limit: int, statistics: DataStatistics
) -> Segments:
    """Split a text into segments of at most `limit` subwords."""

    def fits(part: str) -> bool:
        return count_subwords(part.strip()) <= limit

    by_sentence = statistics.several_sentences < _RARE
    parts: list[Segment] = []
    was_split = False
    for line in text.splitlines(keepends=True):
        content = line.rstrip(_BREAKS)
        for part in split_sentences(content) if by_sentence else [content]:
            if fits(part):  # the common case
                parts.append(_to_segment(part))
                continue
            shorter, inside_sentence = split_to_fit(part, fits)
            parts += map(_to_segment, shorter)
            was_split = was_split or inside_sentence
        if content != line:
            parts.append(Segment(line[len(content) :], "", ""))
    return Segments(parts, was_split)


def _to_segment(part: str) -> Segment:
    text = part.strip()
    if len(text) == len(part):
        return Segment("", text, "")
    start = part.find(text)
    return Segment(part[:start], text, part[start + len(text) :])


def join_segments(parts: Sequence[Segment], translations: Sequence[str]) -> str:
    """The translated text, given one translation per segment, empty for empty segments."""
    text = ""
    for number, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        has_next = part.text and number + 1 < len(parts) and parts[number + 1].text
        after = _space_between(part.after, translation) if has_next else part.after
        text += part.before + translation + after
    return text


def _space_between(gap: str, translation: str) -> str:
    """The space between two sentences: none in Chinese and Japanese."""
    if _CJK.search(translation):
        return "" if gap == " " else gap
    return gap or " "


class SegmentedTexts:
    """Splits texts into requests for a backend, and joins the translated segments.

    Call `requests`, then `add_results`, then `translations`. The first two are lazy: the backend
    searches while later texts are encoded and hypotheses of earlier ones are decoded.
    """

    def __init__(
        self, texts: Sequence[str], folder: ModelFolder, limit: int, prefixes: Sequence[str] | None
    ) -> None:
        self.texts = texts
        self._tokenizers = folder.tokenizers
        self._statistics = folder.data_statistics
        self._limit = limit  # subwords of a request
        self._prefixes = prefixes
        self._segments: dict[int, Segments] = {}  # by text
        # By text, the request of each segment; None for empty segments.
        self._request_numbers: dict[int, list[int | None]] = {}
        self._sources: list[list[int]] = []  # by request
        self._results: dict[int, list[tuple[Hypothesis, str]]] = {}  # by request, best first

    def requests(self) -> Iterator[Request]:
        """The segments to translate, those of the longest texts first."""
        order = sorted(range(len(self.texts)), key=lambda n: len(self.texts[n]), reverse=True)
        for start in range(0, len(order), _CHUNK):
            numbers = order[start : start + _CHUNK]
            texts = [self.texts[number].strip() for number in numbers]
            encoded = dict(zip(texts, self._tokenizers.source.encode_all(texts), strict=True))
            for number in numbers:
                yield from self._requests_for_text(number, encoded)

    def _requests_for_text(self, number: int, encoded: dict[str, list[int]]) -> Iterator[Request]:
        """A request for each non-empty segment of a text; the first has the forced prefix."""

        def encode(text: str) -> list[int]:
            return encoded[text] if text in encoded else self._tokenizers.source.encode(text)

        segments = split_text(
            self.texts[number], lambda t: len(encode(t)), self._limit, self._statistics
        )
        self._segments[number], self._request_numbers[number] = segments, []
        prefix = self._tokenizers.target.encode(self._prefixes[number]) if self._prefixes else []
        for part in segments.parts:
            self._request_numbers[number].append(len(self._sources) if part.text else None)
            if part.text:
                self._sources.append(encode(part.text))
                yield Request(self._sources[-1], prefix)
                prefix = []

    def add_results(self, results: Iterable[SearchResult]) -> None:
        """Decode the hypotheses of all requests, which may come in any order."""
        results = iter(results)
        while chunk := list(islice(results, _CHUNK)):
            ids = [hypothesis.tokens for result in chunk for hypothesis in result.hypotheses]
            texts = map(_to_single_line, self._tokenizers.target.decode_all(ids))
            for request, hypotheses in chunk:
                self._results[request] = [(hypothesis, next(texts)) for hypothesis in hypotheses]

    @property
    def split_text_numbers(self) -> list[int]:
        """The indices of texts with a sentence that was longer than the limit."""
        return sorted(n for n, segments in self._segments.items() if segments.was_split)

    def translations(self, number: int, length_penalty: float) -> list[tuple[str, float]]:
        """The translations of a text with their scores, best first.

        The k-th joins the k-th hypotheses of all segments, or the last of a segment with fewer.
        """
        nbests = [[] if n is None else self._results[n] for n in self._request_numbers[number]]
        translations = []
        for rank in range(max(map(len, nbests), default=0) or 1):
            segment_results = [
                nbest[min(rank, len(nbest) - 1)] if nbest else None for nbest in nbests
            ]
            texts = [pair[1] if pair else "" for pair in segment_results]
            hypotheses = [pair[0] for pair in segment_results if pair]
            score = hypotheses[0].score if hypotheses else 0.0
            if len(hypotheses) > 1:
                length = sum(len(hypothesis.tokens) + 1 for hypothesis in hypotheses)
                total = sum(hypothesis.log_probability for hypothesis in hypotheses)
                score = length_normalized(total, length, length_penalty)
            translations.append((join_segments(self._segments[number].parts, texts), score))
        return translations

    def pairs(self, number: int) -> list[tuple[list[int], list[int]]]:
        """The ids of each segment of a text and of its best translation."""
        numbers = [n for n in self._request_numbers[number] if n is not None and self._results[n]]
        return [(self._sources[n], self._results[n][0][0].tokens) for n in numbers]


def _to_single_line(text: str) -> str:
    """The text without line breaks and NULs, which byte fallback can generate."""
    return " ".join(text.replace("\0", "").splitlines())

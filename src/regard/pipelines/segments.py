"""Splitting texts into segments for translation, and joining the translated segments.

Line breaks, empty lines and the whitespace around a segment are preserved. A line is split into
sentences if it is longer than the training data, or if lines with several sentences were rare in it
(the model would translate only the first sentence).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from regard.data.document_context import NO_CONTEXT, DocumentContext
from regard.data.model_text import DataStatistics, ModelText
from regard.decoding.backend import Hypothesis, Request, length_normalized
from regard.decoding.ranking_config import ScoreType
from regard.decoding.token_constraints import TokenConstraint
from regard.pipelines.confidence import (
    ConfidenceEstimator,
    WordConfidence,
    realigned_words,
    text_confidence,
    to_single_line,
)
from regard.pipelines.context import ContextEncoder, Source
from regard.pipelines.directions import DirectionOf, SelectedDirection
from regard.pipelines.text_constraints import TextConstraints
from regard.pipelines.text_stream import Remarked
from regard.text.sentences import split_sentences, split_to_fit

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # the line boundaries of `splitlines`
_RARE = 0.005  # proportion of training lines with several sentences
_CJK = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")

R = TypeVar("R")


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


def join_segments(parts: Sequence[Segment], translations: Sequence[str]) -> tuple[str, list[int]]:
    """The translated text, and where each translation starts in it.

    There is one translation per segment, empty for empty segments.
    """
    text, starts = "", []
    for number, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        has_next = part.text and number + 1 < len(parts) and parts[number + 1].text
        after = _space_between(part.after, translation) if has_next else part.after
        starts.append(len(text) + len(part.before))
        text += part.before + translation + after
    return text, starts


def _space_between(gap: str, translation: str) -> str:
    """The space between two sentences: none in Chinese and Japanese."""
    if _CJK.search(translation):
        return "" if gap == " " else gap
    return gap or " "


class TranslatedSegment(NamedTuple):
    """A segment with a translation, and where this is in the translation of the whole text."""

    request: Request
    hypothesis: Hypothesis
    text: str
    start: int  # in characters
    source_text: str
    source_start: int  # in the text after all steps


class RankedTranslation(NamedTuple):
    """A translation of a text: one hypothesis for each segment, joined."""

    text: str
    score: float
    segments: list[TranslatedSegment]  # without those that were not searched for
    words: list[WordConfidence] | None = None  # if confidences are computed

    @property
    def confidence(self) -> float | None:
        """The expected fraction of correct words; None for a text without words."""
        return text_confidence(self.words or [])

    def with_current_words(self) -> RankedTranslation:
        """The same translation with the words of its text, which text steps may have changed."""
        if self.words is None:
            return self
        return self._replace(words=realigned_words(self.words, self.text))


class TranslatedText(NamedTuple):
    """The translations of a text, best first."""

    source: str
    ranked: list[RankedTranslation]
    was_split: bool  # whether a sentence was longer than the limit
    review: bool = False  # whether the confidence of the best translation is too low
    step_warnings: tuple[str, ...] = ()  # about the best translation, from text steps

    @property
    def pairs(self) -> list[tuple[list[int], list[int]]]:
        """The ids of each segment, in its context, and of its best translation."""
        return [(part.request.source, part.hypothesis.tokens) for part in self.ranked[0].segments]

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings about the best translation and its segments."""
        warnings = (part.hypothesis.warnings for part in self.ranked[0].segments)
        return [*dict.fromkeys(chain(chain.from_iterable(warnings), self.step_warnings))]


class NeedsAlignment:
    """Base class of contexts of steps that need `Hypothesis.alignment` to be undone."""


class TextStep(Protocol):
    """A change to texts before they are split into segments, which is undone in translations.

    Steps are pickled for worker processes.
    """

    def prepare(self, text: str) -> tuple[str, Any]:
        """The text to translate, and a context for `restore`."""
        ...

    def restore(self, translated: TranslatedText, context: Any) -> TranslatedText:
        """The translations of the original text, given those of the prepared text."""
        ...


class EncodedText(NamedTuple):
    """A text whose segments are being translated."""

    source: str  # the original text
    text: str  # to translate: after all steps
    segments: Segments | None  # None for a text that is a single segment, as most are
    steps: list[Any]  # the context of each step
    limit: int  # subwords of a segment


@dataclass(frozen=True)
class TranslationCodec(Generic[R]):
    """Splits texts into requests for a backend, and joins the translated segments."""

    text: ModelText
    limit: int  # subwords of a request
    length_penalty: float
    render: Callable[[TranslatedText], R]  # for example to a line of output
    direction_of: DirectionOf
    steps: tuple[TextStep, ...] = ()
    score_type: ScoreType = "log_prob"
    confidence: ConfidenceEstimator | None = None
    constraints: TextConstraints | None = None
    context: DocumentContext = NO_CONTEXT

    def encode(self, sources: Sequence[Source]) -> tuple[list[Request], list[EncodedText]]:
        """A request for each segment that is not empty; the first has the forced prefix."""
        directions = [self.direction_of(source.text) for source in sources]
        prepared = [self._prepare(source.text) for source in sources]
        texts = [
            direction.tagged(text.strip())
            for direction, (text, _) in zip(directions, prepared, strict=True)
        ]
        encoded = dict(zip(texts, self.text.tokenizers.source.encode_all(texts), strict=True))
        requests: list[Request] = []
        context: list[EncodedText] = []
        in_context = ContextEncoder(self.context, self._segment_ids)
        for source, direction, (text, steps) in zip(sources, directions, prepared, strict=True):
            limit = min(self.limit, direction.statistics.longest_source)
            segments = self._split(text, encoded, direction, limit)
            rest = None if _is_plain(segments, text) else segments
            context.append(EncodedText(source.text, text, rest, steps, limit))
            prefix = self.text.tokenizers.target.encode(source.prefix) if source.prefix else []
            needs_alignment = any(isinstance(step, NeedsAlignment) for step in steps)
            parts = [part.text for part in segments.parts if part.text]
            new = []
            for number, part in enumerate(parts):
                ids = self._encode_segment(part, direction, encoded, limit)
                constraints = self._constraints(part, is_first=number == 0)
                forced = [] if number else prefix
                new.append(Request(ids, forced, needs_alignment, constraints))
            if self.context.size:
                new = [*in_context.add(source, self._encode_all(parts, encoded), new, limit)]
            requests += new
        return requests, context

    def _encode_segment(
        self,
        text: str,
        direction: SelectedDirection,
        encoded: Mapping[str, list[int]],
        limit: int,
    ) -> list[int]:
        """The ids of a segment, with annotated terms if the settings require them."""
        if self.constraints is not None:
            text = self.constraints.annotated(
                text,
                lambda annotated: len(self._encode(direction.tagged(annotated), encoded)) <= limit,
            )
        return self._encode(direction.tagged(text), encoded)

    def _segment_ids(self, text: str) -> list[list[int]]:
        """The ids of the segments of a text, without tags."""
        direction, (prepared, _) = self.direction_of(text), self._prepare(text)
        limit = min(self.limit, direction.statistics.longest_source)
        segments = self._split(prepared, {}, direction, limit)
        return self._encode_all([part.text for part in segments.parts if part.text], {})

    def _encode_all(
        self, texts: Sequence[str], encoded: Mapping[str, list[int]]
    ) -> list[list[int]]:
        return [self._encode(text, encoded) for text in texts]

    def _constraints(self, text: str, *, is_first: bool) -> tuple[TokenConstraint, ...]:
        """What the translation of a segment must contain."""
        return self.constraints.constraints(text, is_first=is_first) if self.constraints else ()

    def _prepare(self, text: str) -> tuple[str, list[Any]]:
        """The text after all steps, and the context of each step."""
        contexts = []
        for step in self.steps:
            text, context = step.prepare(text)
            contexts.append(context)
        return text, contexts

    def _split(
        self,
        text: str,
        encoded: Mapping[str, list[int]],
        direction: SelectedDirection,
        limit: int,
    ) -> Segments:
        def count_subwords(part: str) -> int:
            return len(self._encode(direction.tagged(part), encoded))

        return split_text(text, count_subwords, limit, direction.statistics)

    def _encode(self, text: str, encoded: Mapping[str, list[int]]) -> list[int]:
        ids = encoded.get(text)
        return self.text.tokenizers.source.encode(text) if ids is None else ids

    def decode(
        self,
        requests: Sequence[Request],
        context: Sequence[EncodedText],
        outputs: Sequence[list[Hypothesis]],
    ) -> list[Remarked[R]]:
        """The rendered translations of all texts, given the hypotheses of all requests."""
        ids = [hypothesis.tokens for hypotheses in outputs for hypothesis in hypotheses]
        texts = map(to_single_line, self.text.tokenizers.target.decode_all(ids))
        nbests = iter(
            [
                (request, [(hypothesis, next(texts)) for hypothesis in hypotheses])
                for request, hypotheses in zip(requests, outputs, strict=True)
            ]
        )
        translated = [self._restore(part, self._join(part, nbests)) for part in context]
        return [
            Remarked(self.render(text), _remark(text, part.limit))
            for text, part in zip(translated, context, strict=True)
        ]

    def _restore(self, encoded: EncodedText, translated: TranslatedText) -> TranslatedText:
        """The translations of the original text: all steps are undone."""
        for step, context in zip(reversed(self.steps), reversed(encoded.steps), strict=True):
            translated = step.restore(translated, context)
        ranked = [part.with_current_words() for part in translated.ranked]
        confidence = ranked[0].confidence
        review = (
            self.confidence is not None
            and confidence is not None
            and confidence < self.confidence.minimum
        )
        return translated._replace(source=encoded.source, ranked=ranked, review=review)

    def _join(self, encoded: EncodedText, nbests: Iterator[_Nbest]) -> TranslatedText:
        """Join the hypotheses of the segments of a text.

        The k-th translation joins the k-th hypotheses, or the last of a segment with fewer.
        """
        segments = encoded.segments
        if segments is None:
            segments = Segments([Segment("", encoded.text, "")], was_split=False)
        used = [next(nbests) if part.text else None for part in segments.parts]
        count = max((len(nbest[1]) for nbest in used if nbest), default=0) or 1
        ranked = [self._join_rank(segments.parts, used, rank) for rank in range(count)]
        return TranslatedText(encoded.text, ranked, segments.was_split)

    def _join_rank(
        self, parts: Sequence[Segment], nbests: Sequence[_Nbest | None], rank: int
    ) -> RankedTranslation:
        """The translation from the hypotheses of this rank."""
        best = [n[1][min(rank, len(n[1]) - 1)] if n and n[1] else None for n in nbests]
        text, starts = join_segments(parts, [pair[1] if pair else "" for pair in best])
        source_starts = accumulate((len("".join(part)) for part in parts), initial=0)
        translated = [
            TranslatedSegment(nbest[0], *pair, start, part.text, source_start + len(part.before))
            for nbest, pair, start, part, source_start in zip(
                nbests, best, starts, parts, source_starts, strict=False
            )
            if nbest and pair
        ]
        score = self._score([part.hypothesis for part in translated])
        return RankedTranslation(text, score, translated, self._words(translated))

    def _words(self, segments: Sequence[TranslatedSegment]) -> list[WordConfidence] | None:
        """The words of all segments, if confidences are computed."""
        if self.confidence is None:
            return None
        words: list[WordConfidence] = []
        for _, hypothesis, text, start, *_ in segments:
            assert hypothesis.token_log_probs is not None
            log_probs = hypothesis.token_log_probs
            words += self.confidence.words(hypothesis.tokens, log_probs, text, start)
        return words

    def _score(self, hypotheses: Sequence[Hypothesis]) -> float:
        """The score of joined hypotheses; others than log-probs are averaged by length."""
        if len(hypotheses) == 1:
            return hypotheses[0].score
        length = sum(len(hypothesis.tokens) + 1 for hypothesis in hypotheses)
        if hypotheses and self.score_type != "log_prob":
            return sum(each.score * (len(each.tokens) + 1) for each in hypotheses) / length
        total = sum(hypothesis.log_probability for hypothesis in hypotheses)
        return length_normalized(total, length, self.length_penalty) if hypotheses else 0.0


# The request of a segment, and its hypotheses with their texts, best first.
_Nbest = tuple[Request, list[tuple[Hypothesis, str]]]


def _is_plain(segments: Segments, text: str) -> bool:
    """Whether a text is one segment without surrounding whitespace."""
    return len(segments.parts) == 1 and text == text.strip() != "" and not segments.was_split


def _remark(translated: TranslatedText, limit: int) -> str:
    """What a notice says about a line; `limit` is the maximum number of subwords."""
    remarks = []
    if translated.was_split:
        remarks.append(
            f"has a sentence longer than {limit} subwords, the longest that this model "
            "was trained on; it was split and translated in parts."
        )
    if translated.warnings:
        remarks.append(f"has a translation that {' and '.join(translated.warnings)}.")
    if translated.review:
        confidence = translated.ranked[0].confidence
        remarks.append(f"has a translation with confidence {confidence:.2f}; review it.")
    return " It ".join(remarks)

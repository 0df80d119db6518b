"""A text as the parts that a model translates and the parts that stay as they are.

Line breaks, empty lines and the spaces around a sentence come out where they went in. A line falls
into sentences when it is longer than what the model has seen, or when the model has hardly ever
seen two sentences in a line (it would translate the first and forget the rest).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from regard.decoding.engine import Found, Hypothesis, Job, normalized
from regard.models.folder import ModelFolder, Training
from regard.text.sentences import pieces_within, sentences

_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # where `splitlines` cuts
_RARE = 0.005
_AT_ONCE = 128  # texts that are encoded or decoded in one call
_WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]$")


class Segment(NamedTuple):
    """Something to translate (`text`, perhaps empty) and what stands around it as it is."""

    before: str
    text: str
    after: str


class Segments(NamedTuple):
    """All of a text, in order."""

    parts: list[Segment]
    was_cut: bool  # a sentence was longer than the model's limit


def segments(text: str, tokens: Callable[[str], int], limit: int, seen: Training) -> Segments:
    """Take a text apart; `tokens` counts the subwords of a piece."""

    def fits(piece: str) -> bool:
        return tokens(piece.strip()) <= limit

    one_by_one = seen.several_sentences < _RARE
    parts: list[Segment] = []
    was_cut = False
    for line in text.splitlines(keepends=True):
        content = line.rstrip(_BREAKS)
        for part in sentences(content) if one_by_one else [content]:
            if fits(part):  # as nearly always
                parts.append(_trimmed(part))
                continue
            pieces, cut = pieces_within(part, fits)
            parts += map(_trimmed, pieces)
            was_cut = was_cut or cut
        if content != line:
            parts.append(Segment(line[len(content) :], "", ""))
    return Segments(parts, was_cut)


def _trimmed(piece: str) -> Segment:
    text = piece.strip()
    if len(text) == len(piece):
        return Segment("", text, "")
    begin = piece.find(text)
    return Segment(piece[:begin], text, piece[begin + len(text) :])


def joined(parts: Sequence[Segment], translations: Sequence[str]) -> str:
    """The translated text; `translations` has one entry for each part, empty for empty ones."""
    text = ""
    for number, (part, translation) in enumerate(zip(parts, translations, strict=True)):
        goes_on = part.text and number + 1 < len(parts) and parts[number + 1].text
        after = _between(part.after, translation) if goes_on else part.after
        text += part.before + translation + after
    return text


def _between(gap: str, translation: str) -> str:
    """Between sentences, Chinese and Japanese have no space and other scripts have one."""
    if _WIDE.search(translation):
        return "" if gap == " " else gap
    return gap or " "


class SegmentedTexts:
    """Texts on their way through an engine: taken apart, translated, put together again.

    First all jobs are taken, then what was found is given back, then translations are read. Texts
    are encoded a few at a time while the engine works on those before them, and what it has found
    is decoded while it works on the rest.
    """

    def __init__(
        self, texts: Sequence[str], folder: ModelFolder, limit: int, prefixes: Sequence[str] | None
    ) -> None:
        self.texts = texts
        self._tokenizers = folder.tokenizers
        self._seen = folder.seen
        self._limit = limit  # subwords of a job
        self._prefixes = prefixes
        self._taken: dict[int, Segments] = {}  # by text
        self._numbers: dict[int, list[int | None]] = {}  # by text: the job of each part, if any
        self._sources: list[list[int]] = []  # by job
        self._found: dict[int, list[tuple[Hypothesis, str]]] = {}  # by job, best first

    def jobs(self) -> Iterator[Job]:
        """What is to be translated, longest texts first."""
        order = sorted(range(len(self.texts)), key=lambda n: len(self.texts[n]), reverse=True)
        for begin in range(0, len(order), _AT_ONCE):
            numbers = order[begin : begin + _AT_ONCE]
            texts = [self.texts[number].strip() for number in numbers]
            known = dict(zip(texts, self._tokenizers.source.encode_all(texts), strict=True))
            for number in numbers:
                yield from self._jobs_of(number, known)

    def _jobs_of(self, number: int, known: dict[str, list[int]]) -> Iterator[Job]:
        """A job for each part of a text that is to be translated; the first has its prefix."""

        def ids(text: str) -> list[int]:
            return known[text] if text in known else self._tokenizers.source.encode(text)

        taken = segments(self.texts[number], lambda t: len(ids(t)), self._limit, self._seen)
        self._taken[number], self._numbers[number] = taken, []
        begin = self._tokenizers.target.encode(self._prefixes[number]) if self._prefixes else []
        for part in taken.parts:
            self._numbers[number].append(len(self._sources) if part.text else None)
            if part.text:
                self._sources.append(ids(part.text))
                yield Job(self._sources[-1], begin)
                begin = []

    def take(self, found: Iterable[Found]) -> None:
        """Decode what was found, in whatever order it comes."""
        found = iter(found)
        while several := list(islice(found, _AT_ONCE)):
            every = [hypothesis.tokens for one in several for hypothesis in one.hypotheses]
            texts = map(_one_line, self._tokenizers.target.decode_all(every))
            for one in several:
                self._found[one.job] = [(hypothesis, next(texts)) for hypothesis in one.hypotheses]

    @property
    def cut(self) -> list[int]:
        """The texts with a sentence that was longer than the limit."""
        return sorted(number for number, taken in self._taken.items() if taken.was_cut)

    def translations(self, number: int, length_penalty: float) -> list[tuple[str, float]]:
        """The translations of a text with their scores, best first.

        Each is made of the hypotheses of one rank, or of the last of a part that has fewer.
        """
        every = [[] if job is None else self._found[job] for job in self._numbers[number]]
        whole = []
        for rank in range(max(map(len, every), default=0) or 1):
            chosen = [found[min(rank, len(found) - 1)] if found else None for found in every]
            text = joined(self._taken[number].parts, [one[1] if one else "" for one in chosen])
            real = [one[0] for one in chosen if one]
            score = real[0].score if real else 0.0
            if len(real) > 1:
                length = sum(len(hypothesis.tokens) + 1 for hypothesis in real)
                total = sum(hypothesis.log_probability for hypothesis in real)
                score = normalized(total, length, length_penalty)
            whole.append((text, score))
        return whole

    def pairs(self, number: int) -> list[tuple[list[int], list[int]]]:
        """The ids of each part of a text and of its best translation."""
        jobs = [job for job in self._numbers[number] if job is not None and self._found[job]]
        return [(self._sources[job], self._found[job][0][0].tokens) for job in jobs]


def _one_line(text: str) -> str:
    """One line, even if a byte of the model's is a line break; and no file may hold a NUL."""
    return " ".join(text.replace("\0", "").splitlines())

"""Some texts on their way through an engine: taken apart, translated, put together again.

Texts are encoded a few at a time while the engine works on those before them, and what it has found
is decoded while it works on the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from regard.decoding.engine import Found, Job
from regard.decoding.hypothesis import Hypothesis, normalized
from regard.decoding.segments import Segments, joined, segments
from regard.models.folder import ModelFolder

_AT_ONCE = 128  # texts that are encoded or decoded in one call


class Piece(NamedTuple):
    """A hypothesis, and how it reads."""

    hypothesis: Hypothesis
    text: str


class Portion:
    """First all of its jobs are taken, then what was found is given to it, then it is read."""

    def __init__(
        self, texts: Sequence[str], folder: ModelFolder, limit: int, prefixes: Sequence[str] | None
    ) -> None:
        self.texts = texts
        self._tokenizers = folder.tokenizers
        self._seen = folder.seen
        self._limit = limit  # subwords of a job
        self._prefixes = prefixes
        self._taken: dict[int, Segments] = {}  # by text
        self._first_job: dict[int, int] = {}  # by text
        self._sources: list[list[int]] = []  # by job
        self._found: dict[int, list[Piece]] = {}  # by job

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
        self._taken[number] = taken
        self._first_job[number] = len(self._sources)
        begin = self._tokenizers.target.encode(self._prefixes[number]) if self._prefixes else []
        for part in taken.parts:
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
                self._found[one.job] = [Piece(h, next(texts)) for h in one.hypotheses]

    @property
    def cut(self) -> list[int]:
        """The texts with a sentence that was longer than the limit."""
        return sorted(number for number, taken in self._taken.items() if taken.was_cut)

    def translations(self, number: int, length_penalty: float) -> list[tuple[str, float]]:
        """The translations of a text with their scores, best first."""
        own = self._pieces(number)
        if len(own) == 1 and own[0]:  # as nearly always
            [part] = self._taken[number].parts
            return [(part.before + p.text + part.after, p.hypothesis.score) for p in own[0]]
        ranks = max(map(len, own), default=0) or 1
        return [self._whole(number, own, rank, length_penalty) for rank in range(ranks)]

    def pairs(self, number: int) -> list[tuple[list[int], list[int]]]:
        """The ids of each part of a text and of its best translation."""
        jobs = range(self._first_job[number], len(self._sources))
        found = [pieces[0].hypothesis.tokens for pieces in self._pieces(number) if pieces]
        return [(self._sources[job], ids) for job, ids in zip(jobs, found, strict=False)]

    def _pieces(self, number: int) -> list[list[Piece]]:
        """For each part of a text its pieces, best first; none where nothing is translated."""
        job = self._first_job[number]
        own = []
        for part in self._taken[number].parts:
            own.append(self._found[job] if part.text else [])
            job += bool(part.text)
        return own

    def _whole(
        self, number: int, own: Sequence[Sequence[Piece]], rank: int, length_penalty: float
    ) -> tuple[str, float]:
        """The text made of each part's piece of this rank, or of its last one; and its score."""
        chosen = [pieces[min(rank, len(pieces) - 1)] if pieces else None for pieces in own]
        text = joined(self._taken[number].parts, [one.text if one else "" for one in chosen])
        real = [one.hypothesis for one in chosen if one]
        if len(real) <= 1:
            return text, real[0].score if real else 0.0
        length = sum(len(hypothesis.tokens) + 1 for hypothesis in real)
        total = sum(hypothesis.log_probability for hypothesis in real)
        return text, normalized(total, length, length_penalty)


def _one_line(text: str) -> str:
    """One line, even if a byte of the model's is a line break; and no file may hold a NUL."""
    return " ".join(text.replace("\0", "").splitlines())

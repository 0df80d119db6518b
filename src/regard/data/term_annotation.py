"""Annotation of terms in the sources of training pairs, for `regard translate --glossary`.

A model that has been trained with annotated terms uses the translations that a source contains
(Dinu et al., 2019, ACL P19-1294). Terms are those of a glossary where the target has their
translation, or words and phrases that are aligned with each other. Which pairs and terms are
annotated depends on the number of the pair alone.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from regard.data.aligned_terms import AlignedCorpus, AlignedTerm
from regard.data.alignments import Links
from regard.data.directions import Direction
from regard.data.filters import Report
from regard.data.glossary import Glossary
from regard.data.term_annotation_config import TermAnnotationConfig
from regard.errors import DataError
from regard.text.term_marks import TERM_MARKS, AnnotatedTerm, annotate, contains_mark

_MAX_TERMS = 3  # of a pair
_SEED = 1


class TermAnnotation:
    """Annotates terms in a fraction of the training pairs, which are read twice."""

    @staticmethod
    def of(config: TermAnnotationConfig) -> TermAnnotation | None:
        """The annotation with these settings; None if no terms are annotated."""
        return TermAnnotation(config) if config.annotate_terms else None

    def __init__(self, config: TermAnnotationConfig) -> None:
        self._fraction = config.annotate_terms
        self._glossary = None if config.glossary is None else Glossary.read(config.glossary)
        if self._glossary is not None:
            refuse_marks(self._glossary)
        self._corpora = defaultdict[Direction | None, AlignedCorpus](AlignedCorpus)
        self._aligned: dict[Direction | None, Iterator[tuple[Links, Links]]] = {}
        self._numbers = Counter[Direction | None]()  # of the next pair of each direction

    def add(self, direction: Direction | None, source: str, target: str) -> None:
        """Read a pair for the first time."""
        if self._glossary is None:
            self._corpora[direction].add(source, target)

    def annotated(self, direction: Direction | None, source: str, target: str) -> str:
        """The source of a pair that is read for the second time, in the same order."""
        number = self._numbers[direction]
        self._numbers[direction] += 1
        draw = self._selected(direction, number)
        if draw is None:
            return source
        terms = self._terms(direction, source, target)
        return annotate(source, sorted(_sample(terms, draw)))

    def _selected(self, direction: Direction | None, number: int) -> random.Random | None:
        """The random numbers of a pair; None if it is not annotated."""
        draw = random.Random(f"{_SEED} {direction} {number}")
        return draw if draw.random() < self._fraction else None

    def _terms(self, direction: Direction | None, source: str, target: str) -> list[AlignedTerm]:
        """The terms of the next pair that is annotated."""
        if self._glossary is not None:
            return _glossary_terms(self._glossary, source, target)
        corpus = self._corpora[direction]
        if direction not in self._aligned:
            numbers = range(len(corpus))
            selected = [self._selected(direction, number) is not None for number in numbers]
            self._aligned[direction] = corpus.align(selected)
        return corpus.terms(source, target, *next(self._aligned[direction]))


def skip_marked(
    pairs: Iterable[tuple[int, str, str]], report: Report
) -> Iterator[tuple[int, str, str]]:
    """The pairs without marks of annotated terms; others are in the report."""
    for line, source, target in pairs:
        if contains_mark(source) or contains_mark(target):
            report.note("contains a mark of annotated terms: skipped", line, (source, target))
        else:
            yield line, source, target


def refuse_marks(glossary: Glossary) -> None:
    """Raise an error for terms that contain a mark of annotated terms."""
    for term in glossary.terms:
        for text in (term.source, *term.targets):
            if contains_mark(text):
                raise DataError(
                    f"The glossary has the term {text!r}, but {', '.join(TERM_MARKS)} mark terms "
                    "in sources. Remove it from the glossary."
                )


def _glossary_terms(glossary: Glossary, source: str, target: str) -> list[AlignedTerm]:
    """The terms of a source that the target translates as the glossary does.

    Their translation is the first alternative, which is that of annotations in `translate`.
    """
    return [
        AlignedTerm(start, end, term.targets[0])
        for term, start, end in glossary.matches(source)
        if term.target_pattern.search(target)
    ]


def _sample(terms: Sequence[AlignedTerm], draw: random.Random) -> Iterator[AnnotatedTerm]:
    """One to three terms that do not overlap, sampled by their weights."""
    count = draw.randint(1, _MAX_TERMS)
    sampled: list[AlignedTerm] = []
    # Sampling without replacement (Efraimidis and Spirakis, 2006).
    keys = {term: draw.random() ** (1 / term.weight) for term in terms}
    for term in sorted(terms, key=keys.__getitem__, reverse=True):
        if all(term.end <= other.start or other.end <= term.start for other in sampled):
            sampled.append(term)
    for term in sampled[:count]:
        yield AnnotatedTerm(term.start, term.end, term.translation)

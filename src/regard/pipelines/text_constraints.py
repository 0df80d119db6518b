"""Constraints of a translation from the text of its source: terms of a glossary, forced words.

The terms of a glossary are enforced by a constrained search, given to the model as annotated terms
of the source, or both. Annotation alone enforces nothing, but what is missing is reported.

A term must occur in the translation as often as in the source. An occurrence within that of another
term counts for that one only: "rotes Haus" is not the "Haus" of another place. A forced word may be
part of a term.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.config import build
from regard.data.glossary import Glossary, GlossarySource, Term, alternatives, word_pattern
from regard.data.model_text import ModelText
from regard.data.term_annotation import refuse_marks
from regard.decoding.constraint_config import (
    ConstraintConfig,
    ConstraintKeywords,
    GlossaryMethod,
)
from regard.decoding.token_constraints import TokenConstraint
from regard.errors import ConfigError
from regard.foreign_models import describe_exported_model, refuse_exported
from regard.pipelines.texts import checked_texts
from regard.text.base import Tokenizer
from regard.text.segmentations import WITHOUT_SPACES, needs_boundary, segmentations
from regard.text.term_marks import AnnotatedTerm, annotate, contains_mark

_MAX_SEGMENTATIONS = 3  # of an alternative: the tokenizer's own, and those with the fewest tokens
_CONSTRAINED_MODES = ("greedy search", "beam search")
_WITHOUT_SPACES = re.compile(f"[{WITHOUT_SPACES}]")


@dataclass(frozen=True)
class TextConstraints:
    """What translations must contain; pickled for worker processes."""

    glossary: Glossary
    forced: tuple[Term, ...]
    tokenizer: Tokenizer  # of the target
    method: GlossaryMethod = "constrained"
    _encoded: dict[Term, TokenConstraint] = field(default_factory=dict, compare=False)

    def constraints(self, text: str, *, is_first: bool) -> tuple[TokenConstraint, ...]:
        """The constraints of a segment; forced words belong to the first segment of a text."""
        counts = Counter(match.term for match in self.glossary.matches(text))
        required = [*_required(counts)]
        if is_first:  # an occurrence in a term counts as well
            required += Counter(self.forced).items()
        return tuple(
            self._encode(term)._replace(occurrences=n, enforced=self._is_enforced(term))
            for term, n in required
        )

    def annotated(self, text: str, fits: Callable[[str], bool]) -> str:
        """A segment with as many annotated terms, from left to right, as fit into the model.

        The translation is the first alternative. A segment that contains marks is unchanged.
        """
        if self.method == "constrained" or contains_mark(text):
            return text
        terms = [
            AnnotatedTerm(match.start, match.end, match.term.targets[0])
            for match in self.glossary.matches(text)
        ]
        counts = range(len(terms), 0, -1)
        annotated = (annotate(text, terms[:count]) for count in counts)
        return next(filter(fits, annotated), text)

    def _is_enforced(self, term: Term) -> bool:
        return self.method != "annotated" or term in self.forced

    def _encode(self, term: Term) -> TokenConstraint:
        if term not in self._encoded:
            self._encoded[term] = encode_term(term, self.tokenizer)
        return self._encoded[term]


def text_constraints(
    keywords: ConstraintKeywords, text: ModelText, mode: str, exported: Sequence[Path] = ()
) -> TextConstraints | None:
    """The constraints that these settings require in a decoding mode; None if there are none.

    `exported` are folders that may have no weights for PyTorch, which a constrained search needs.
    """
    glossary = keywords.get("glossary")
    rest = {name: value for name, value in keywords.items() if name != "glossary"}
    config = build(ConstraintConfig, rest)
    if glossary is None and config.glossary_method is not None:
        raise ConfigError(
            "glossary_method (--glossary-method) has no effect without glossary (--glossary). Use "
            "both, or leave it out."
        )
    if glossary is None and not config.force:
        return None
    is_searchable = mode in _CONSTRAINED_MODES and not any(map(describe_exported_model, exported))
    method = _method(config, text, is_searchable=is_searchable)
    if glossary is not None and method != "constrained":
        _refuse_unannotated(text)
    enforced = ["glossary (--glossary)"] if glossary is not None and method != "annotated" else []
    enforced += ["force (--force)"] if config.force else []
    if enforced:
        _refuse_other_modes(mode, enforced)
        for folder in exported:
            refuse_exported(folder)
    target = text.tokenizers.target
    if target.in_text_order is not target:  # the automata read words from left to right
        raise ConfigError(
            "glossary (--glossary) and force (--force) are not supported for right-to-left models. "
            "Leave them out, or rerank the translations of another model (--rerank)."
        )
    words = checked_texts(config.force, "Forced word")
    forced = tuple(Term("", tuple(alternatives(each))) for each in words)
    if not all(all(term.targets) for term in forced):
        raise ConfigError("A forced word (--force) is empty. Give a word, or leave it out.")
    terms = Glossary(()) if glossary is None else Glossary.of(glossary)
    if method != "constrained":
        refuse_marks(terms)
    return TextConstraints(terms, forced, target, method)


def annotated_terms(glossary: GlossarySource | None, text: ModelText) -> TextConstraints | None:
    """The terms of a glossary to annotate in sources that are scored; None without a glossary."""
    if glossary is None:
        return None
    if not text.data_statistics.annotated_terms:
        raise ConfigError(
            "glossary (--glossary) has no effect on the scores of this model, or one of an "
            "ensemble, which was trained without annotated terms. Leave it out."
        )
    return text_constraints({"glossary": glossary, "glossary_method": "annotated"}, text, "scoring")


def _method(config: ConstraintConfig, text: ModelText, *, is_searchable: bool) -> GlossaryMethod:
    """The method that is set, or the best one that is available."""
    if config.glossary_method is not None:
        return config.glossary_method
    if not text.data_statistics.annotated_terms:
        return "constrained"
    return "both" if is_searchable else "annotated"


def _refuse_unannotated(text: ModelText) -> None:
    """Raise an error for models that do not use annotated terms."""
    if not text.data_statistics.annotated_terms:
        raise ConfigError(
            "glossary_method (--glossary-method) is annotated or both, but the model, or one of an "
            "ensemble, was trained without annotated terms. Use constrained, or a model trained on "
            "data of `regard prepare --annotate-terms`."
        )


def _refuse_other_modes(mode: str, settings: Sequence[str]) -> None:
    """Raise an error for decoding modes without a constrained search."""
    if mode not in _CONSTRAINED_MODES:
        verb, pronoun = ("has", "it is") if len(settings) == 1 else ("have", "they are")
        raise ConfigError(
            f"{' and '.join(settings)} {verb} no effect in {mode}; {pronoun} for beam search and "
            f"greedy search. Leave {'it' if len(settings) == 1 else 'them'} out."
        )


def encode_term(term: Term, tokenizer: Tokenizer) -> TokenConstraint:
    """A term as token ids: each alternative in up to three segmentations.

    There is no sequence if the vocabulary cannot express any alternative.
    """
    sequences = [
        tuple(ids) for words in _spellings(term) for ids in _segmentations(term, words, tokenizer)
    ]
    whole_word = not term.inside_words and all(needs_boundary(each[-1]) for each in term.targets)
    name = f'"{"|".join(term.targets)}"' + (f' for "{term.source}"' if term.source else "")
    return TokenConstraint(tuple(dict.fromkeys(sequences)), whole_word=whole_word, name=name)


def _spellings(term: Term) -> Iterator[str]:
    """The alternatives; also with a capital letter, as at the beginning of a sentence."""
    yield from term.targets
    if not term.case_sensitive:
        yield from (words[0].upper() + words[1:] for words in term.targets)


def _segmentations(term: Term, words: str, tokenizer: Tokenizer) -> Iterator[list[int]]:
    possible = segmentations(words, tokenizer)
    if not possible:
        return
    yield tokenizer.encode(words)
    yield from possible[:_MAX_SEGMENTATIONS]
    if term.inside_words or _WITHOUT_SPACES.match(words):
        yield from segmentations(words, tokenizer, inside=True)[:_MAX_SEGMENTATIONS]


def _required(counts: Mapping[Term, int]) -> Iterator[tuple[Term, int]]:
    """The terms, and how often each must occur, other terms that contain it included."""
    for term in counts:
        yield term, sum(n for other, n in counts.items() if other is term or _contains(other, term))


def _contains(term: Term, part: Term) -> bool:
    """Whether every alternative of a term contains one of another term."""
    return all(
        any(word in words and re.search(word_pattern(word), words) for word in part.targets)
        for words in term.targets
    )

"""Constraints of a translation from the text of its source: terms of a glossary, forced words.

A term must occur in the translation as often as in the source. An occurrence within that of another
term counts for that one only: "rotes Haus" is not the "Haus" of another place. A forced word may be
part of a term.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from regard.config import build
from regard.data.glossary import Glossary, Term, alternatives, word_pattern
from regard.decoding.constraint_config import ConstraintConfig, ConstraintKeywords
from regard.decoding.token_constraints import TokenConstraint
from regard.errors import ConfigError
from regard.pipelines.texts import checked_texts
from regard.text.base import Tokenizer
from regard.text.segmentations import WITHOUT_SPACES, needs_boundary, segmentations

_MAX_SEGMENTATIONS = 3  # of an alternative: the tokenizer's own, and those with the fewest tokens
_WITHOUT_SPACES = re.compile(f"[{WITHOUT_SPACES}]")


@dataclass(frozen=True)
class TextConstraints:
    """What translations must contain; pickled for worker processes."""

    glossary: Glossary
    forced: tuple[Term, ...]
    tokenizer: Tokenizer  # of the target
    _encoded: dict[Term, TokenConstraint] = field(default_factory=dict, compare=False)

    def constraints(self, text: str, *, is_first: bool) -> tuple[TokenConstraint, ...]:
        """The constraints of a segment; forced words belong to the first segment of a text."""
        counts = Counter(match.term for match in self.glossary.matches(text))
        required = [*_required(counts)]
        if is_first:  # an occurrence in a term counts as well
            required += Counter(self.forced).items()
        return tuple(self._encode(term)._replace(occurrences=n) for term, n in required)

    def _encode(self, term: Term) -> TokenConstraint:
        if term not in self._encoded:
            self._encoded[term] = encode_term(term, self.tokenizer)
        return self._encoded[term]


def text_constraints(
    keywords: ConstraintKeywords, tokenizer: Tokenizer, mode: str
) -> TextConstraints | None:
    """The constraints that these settings require in a decoding mode; None if there are none."""
    glossary = keywords.get("glossary")
    rest = {name: value for name, value in keywords.items() if name != "glossary"}
    config = build(ConstraintConfig, rest)
    if glossary is None and not config.force:
        return None
    if mode not in ("greedy search", "beam search"):
        raise ConfigError(
            f"glossary (--glossary) and force (--force) have no effect in {mode}; they are for "
            "beam search and greedy search. Leave them out."
        )
    if tokenizer.in_text_order is not tokenizer:  # the automata read words from left to right
        raise ConfigError(
            "glossary (--glossary) and force (--force) are not supported for right-to-left models. "
            "Leave them out, or rerank the translations of another model (--rerank)."
        )
    words = checked_texts(config.force, "Forced word")
    forced = tuple(Term("", tuple(alternatives(each))) for each in words)
    if not all(all(term.targets) for term in forced):
        raise ConfigError("A forced word (--force) is empty. Give a word, or leave it out.")
    terms = Glossary(()) if glossary is None else Glossary.of(glossary)
    return TextConstraints(terms, forced, tokenizer)


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

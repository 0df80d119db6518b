"""Protection of spans from translation, and what the model reads in their place."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.glossary import Glossary
from regard.decoding.protection_config import ProtectionConfig
from regard.markup.protection import Protection
from regard.pipelines.text_constraints import TextConstraints
from regard.text.base import Tokenizer
from regard.text.segmentations import is_in_vocabulary
from regard.text.sentences import split_sentences
from regard.text.tokenizer import Tokenizers

_MAX_SUBWORDS = 4  # of a span that the model reads; longer ones are codes, for the most part
# Letters that are no words at the beginning of a sentence, the rarest first.
_STAND_INS = "XQHBPRGFZKVW"
_LOWERCASE_STAND_INS = "xq"  # others are words of some language


@dataclass(frozen=True)
class KnownSpans:
    """Whether the model can read a span; pickled for worker processes."""

    tokenizer: Tokenizer  # of the source
    glossary: Glossary

    def __call__(self, text: str) -> bool:
        """Whether a span is short, in the vocabulary, without terms, and not split as a text."""
        return (
            is_in_vocabulary(text, self.tokenizer)
            and len(self.tokenizer.encode(text)) <= _MAX_SUBWORDS
            and len(split_sentences(text)) == 1
            and not self.glossary.matches(text)
        )


def make_protection(
    config: ProtectionConfig, tokenizers: Tokenizers, constraints: TextConstraints | None
) -> Protection | None:
    """The protection with these settings; None without any.

    A term of a glossary inside a span is hidden from the model, and from the constraints.
    """
    finder = config.span_finder
    if finder is None:
        return None
    glossary = Glossary(()) if constraints is None else constraints.glossary
    is_readable = KnownSpans(tokenizers.source, glossary)
    return Protection(finder, is_readable, _stand_ins(tokenizers))


def _stand_ins(tokenizers: Tokenizers) -> tuple[str, ...]:
    """The letters that the model can read and write, those that are one subword first."""
    both = tokenizers.source, tokenizers.target
    is_lowercase = any(tokenizer.config.lowercase for tokenizer in both)
    known = [
        letter
        for letter in (_LOWERCASE_STAND_INS if is_lowercase else _STAND_INS)
        if all(is_in_vocabulary(letter, tokenizer) for tokenizer in both)
    ]
    return tuple(sorted(known, key=lambda letter: len(tokenizers.source.encode(letter))))

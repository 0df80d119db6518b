"""Checks of translations: repetitive, without an end, much shorter or longer than the source.

The checks compare a hypothesis with its source, so that a source that is repetitive itself may have
such a translation. This module does not import PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.decoding.backend import Hypothesis, Request
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig
from regard.decoding.token_patterns import most_repetitions, ngrams, repeated_share

_ADDED_REPETITIONS = 3  # of a unit in a row, beyond those in the source
_ADDED_SHARE = 0.4  # of repeated trigrams, beyond those in the source
_MIN_TRIGRAMS = 10  # for a share
_SHORT_SOURCE = 10  # tokens; its translation is never too short, and may have that many more


@dataclass(frozen=True)
class TranslationChecks:
    """The checks of translations, with the limits of their search."""

    config: SearchConfig
    max_length: int | None  # of the model, EOS included
    retry_below: float  # target tokens per source token
    retry_above: float

    @staticmethod
    def of(config: SearchConfig, text: TextConfig, max_length: int | None) -> TranslationChecks:
        """The checks with these settings."""
        return TranslationChecks(config, max_length, text.retry_below, text.retry_above)

    def problems(self, request: Request, hypothesis: Hypothesis) -> tuple[str, ...]:
        """What is wrong with a translation; each continues a sentence about it."""
        return tuple(self._problems(request, hypothesis.tokens))

    def _problems(self, request: Request, tokens: Sequence[int]) -> Iterator[str]:
        source = request.segment
        length = len(source) + 1
        context = request.context.target
        if context + len(tokens) + 1 >= self.config.limit(length, self.max_length, context):
            yield "did not end before the maximum length"
        if is_repetitive(tokens, source):
            yield "is repetitive"
        if len(source) > _SHORT_SOURCE and len(tokens) + 1 < length * self.retry_below:
            yield "is much shorter than its source"
        if len(tokens) + 1 > length * self.retry_above + _SHORT_SOURCE:
            yield "is much longer than its source"


def is_repetitive(tokens: Sequence[int], source: Sequence[int]) -> bool:
    """Whether a translation is more repetitive than its source.

    Either a unit of tokens occurs at least three times more in a row than any in the source ("a b a
    b a b a b"), or the fraction of trigrams that occurred before is higher by more than 0.4.
    """
    trigrams = ngrams(tokens, 3)
    repeated = len(trigrams) - len(set(trigrams))
    if repeated == 0:  # the common case; a unit that occurs four times repeats a trigram
        return False
    if most_repetitions(tokens) >= most_repetitions(source) + _ADDED_REPETITIONS:
        return True
    share = repeated / len(trigrams)
    return len(trigrams) >= _MIN_TRIGRAMS and share > repeated_share(source) + _ADDED_SHARE

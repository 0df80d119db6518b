"""Retry: a second search, without repeated n-grams, where a translation is wrong by its form.

Translations that pass the checks are passed on unchanged, so that a retry costs nothing where it is
not needed. Of the two translations of a segment, the one with fewer problems is kept, but none that
lacks a required term instead of one that has it; its warnings say what was wrong, or still is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from regard.backends.translation_checks import TranslationChecks
from regard.backends.wrapped_backend import Searched, WrappedBackend
from regard.decoding.backend import Backend, Hypothesis, search_requests
from regard.decoding.config import SearchConfig
from regard.decoding.modes import SEARCH
from regard.decoding.text_config import TextConfig
from regard.decoding.token_patterns import repeated_share
from regard.errors import ConfigError
from regard.option_sets import option_name

_NGRAM_SIZE = 3
_MAX_RATIO, _MAX_EXTRA = 1.5, 10  # at most; a second search that does not end is cut earlier


class RetryBackend(WrappedBackend):
    """Searches again where the checks find problems in the best hypothesis."""

    def __init__(self, inner: Backend, text: TextConfig) -> None:
        super().__init__(inner)
        self._text = text

    def is_final(self, searched: Searched, config: SearchConfig) -> bool:
        """Whether the best hypothesis has no problems."""
        checks = TranslationChecks.of(config, self._text, self.max_length)
        return not checks.problems(searched.request, searched.hypotheses[0])

    def process(
        self, searched: Sequence[Searched], config: SearchConfig
    ) -> Iterable[list[Hypothesis]]:
        """The better n-best list of each request, with warnings."""
        guarded = self.guarded_config(config)
        requests = [request for request, _ in searched]
        again = dict(search_requests(self.inner, requests, guarded, None))
        checks = [
            TranslationChecks.of(each, self._text, self.max_length) for each in (config, guarded)
        ]
        for number, (request, hypotheses) in enumerate(searched):
            both = hypotheses, again[number]
            problems = [
                check.problems(request, hypotheses[0])
                for check, hypotheses in zip(checks, both, strict=True)
            ]
            yield [*_better(*both, *problems)]

    def guarded_config(self, config: SearchConfig) -> SearchConfig:
        """The settings of the second search."""
        return replace(
            config,
            no_repeat_ngram_size=min(config.no_repeat_ngram_size or _NGRAM_SIZE, _NGRAM_SIZE),
            max_ratio=min(config.max_ratio, max(_MAX_RATIO, config.min_ratio)),
            max_extra=min(config.max_extra, _MAX_EXTRA),
            min_ratio=max(config.min_ratio, min(2 * self._text.retry_below, 0.5)),
        )


def retries(config: SearchConfig, text: TextConfig, mode: str) -> bool:
    """Whether a search in this decoding mode is repeated where it went wrong.

    An EOS at the limit that is not scored belongs to a limit that was chosen on purpose. Raises an
    error for settings of the checks that would have no effect.
    """
    if text.retry and mode in SEARCH and config.at_limit == "scored":
        return True
    defaults = TextConfig()
    unused = [
        name
        for name in ("retry_below", "retry_above")
        if getattr(text, name) not in (0, getattr(defaults, name))
    ]
    if unused:
        raise ConfigError(
            f"{unused[0]} ({option_name(unused[0])}) has no effect: translations are searched "
            "again only in beam search and greedy search, with retry (--retry) and "
            "at_limit=scored. Leave it out."
        )
    return False


def _better(
    first: list[Hypothesis],
    second: list[Hypothesis],
    problems: tuple[str, ...],
    remaining: tuple[str, ...],
) -> Iterator[Hypothesis]:
    """The n-best list whose best hypothesis has fewer problems; its warnings list them."""
    if _badness(second, remaining) >= _badness(first, problems):
        best, *others = first
        warnings = problems
    else:
        best, *others = second
        result = f"is from a second search, since that of the first {' and '.join(problems)}"
        warnings = remaining or (result,)
    yield best._replace(warnings=(*best.warnings, *warnings))
    yield from others


def _badness(hypotheses: Sequence[Hypothesis], problems: Sequence[str]) -> tuple[int, int, float]:
    """The number of constraints that the best hypothesis violates, of problems, and repetition."""
    best = hypotheses[0]
    return len(best.warnings), len(problems), repeated_share(best.tokens)

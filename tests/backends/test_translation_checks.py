"""Checks find translations that are wrong by their form, and no others."""

from __future__ import annotations

import pytest

from regard.backends.translation_checks import TranslationChecks, is_repetitive
from regard.decoding.backend import ContextLengths, Hypothesis, Request
from regard.decoding.config import SearchConfig
from regard.decoding.text_config import TextConfig

DISTINCT = [*range(100, 130)]


def problems(source: list[int], target: list[int], **settings: float) -> tuple[str, ...]:
    text = TextConfig(**settings)  # type: ignore[arg-type]
    checks = TranslationChecks.of(SearchConfig(max_ratio=9), text, None)
    return checks.problems(Request(source, []), Hypothesis(target, -1.0, -1.0))


@pytest.mark.parametrize(
    "target",
    [
        DISTINCT,
        [],
        [5],
        [5, 5, 5],  # three times in a row
        [5, 6, 7, 8, 9, 5, 6, 7, 10, 11, 12],  # a repeated phrase
        [*DISTINCT[:12], *DISTINCT[:4]],
    ],
)
def test_ordinary_translations_are_not_repetitive(target: list[int]) -> None:
    assert not is_repetitive(target, DISTINCT)


@pytest.mark.parametrize(
    "target",
    [
        [*DISTINCT[:9], 5, 5, 5, 5],
        [4, 5, 6] * 4,
        [*DISTINCT[:5], *[4, 5] * 4, 9, 8],
        [*range(4, 14)] * 3,  # fewer than four times, but most of the output
        [*range(4, 10), 30, *range(4, 10), 31, *range(4, 10), 32, *range(4, 10)],
    ],
)
def test_loops_are_repetitive(target: list[int]) -> None:
    assert is_repetitive(target, DISTINCT)
    assert not is_repetitive(target, target), "unless the source is repetitive itself"
    assert problems(DISTINCT, target) == ("is repetitive",)


def test_lengths() -> None:
    assert problems(DISTINCT, DISTINCT) == ()
    assert problems(DISTINCT, [4, 5, 6, 7]) == ("is much shorter than its source",)
    assert problems(DISTINCT, [*range(300, 420)]) == ("is much longer than its source",)
    assert problems(DISTINCT[:5], [*range(300, 320)]) == ()  # short sources allow for more
    assert problems(DISTINCT[:5], []) == ()
    assert problems(DISTINCT, [4, 5, 6, 7], retry_below=0.1) == ()
    assert problems(DISTINCT, [*range(300, 420)], retry_above=5.0) == ()


def test_maximum_length() -> None:
    config, source = SearchConfig(max_ratio=1.0, max_extra=2), DISTINCT[:7]
    for max_length, longest in ((None, 8), (6, 4)):
        checks = TranslationChecks.of(config, TextConfig(), max_length)
        for length in (longest, longest + 1):
            hypothesis = Hypothesis([*range(40, 40 + length)], -1.0, -1.0)
            expected = ("did not end before the maximum length",) * (length > longest)
            assert checks.problems(Request(source, []), hypothesis) == expected


def test_context_does_not_count() -> None:
    """The context of the source would make translations short, that of the target long."""
    request = Request([*DISTINCT, *DISTINCT[:11]], [7] * 5, context=ContextLengths(30, 5))
    checks = TranslationChecks.of(SearchConfig(max_ratio=1.0, max_extra=2), TextConfig(), None)
    assert checks.problems(request, Hypothesis([4, 5, 6, 7, 8], -1.0, -1.0)) == ()
    longest = Hypothesis([*range(40, 53)], -1.0, -1.0)
    assert checks.problems(request, longest) == ("did not end before the maximum length",)
    bounded = TranslationChecks.of(SearchConfig(), TextConfig(), 12)
    assert bounded.problems(request, Hypothesis([*range(40, 45)], -1.0, -1.0)) == ()
    cut = Hypothesis([*range(40, 46)], -1.0, -1.0)
    assert bounded.problems(request, cut) == ("did not end before the maximum length",)

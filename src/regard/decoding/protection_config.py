"""Settings of what translations contain unchanged; does not import PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from regard.config import Doc, Settings
from regard.text.protected import SPAN_KINDS, SpanFinder

Protected = Literal["all", "urls", "emails", "numbers", "placeholders"]


@dataclass(frozen=True)
class ProtectionConfig(Settings):
    """Settings of what translations contain unchanged."""

    protect: Annotated[
        tuple[Protected, ...],
        Doc("URLs, e-mail addresses, numbers or placeholders come out unchanged; repeatable"),
    ] = ()
    protect_pattern: Annotated[
        tuple[str, ...],
        Doc("what this regular expression matches comes out unchanged; repeatable"),
    ] = ()
    protect_marks: Annotated[
        str | None,
        Doc(
            "two marks, separated by a space: text between them comes out unchanged, without the "
            "marks"
        ),
    ] = None

    @property
    def span_finder(self) -> SpanFinder | None:
        """Finds what comes out unchanged; None if there is no such setting."""
        if not (self.protect or self.protect_pattern or self.protect_marks):
            return None
        kinds = [kind for kind in SPAN_KINDS if kind in self.protect or "all" in self.protect]
        marks = self.protect_marks.split() if self.protect_marks else None
        return SpanFinder.of(kinds, self.protect_pattern, (marks[0], marks[1]) if marks else None)

    def problems(self) -> Iterator[str]:
        """Patterns that cannot be used, and wrong marks."""
        yield from super().problems()
        for pattern in self.protect_pattern:
            try:
                matches_nothing = re.compile(pattern).search("") is not None
            except (re.error, RecursionError, OverflowError) as error:
                yield (
                    f"protect_pattern (--protect-pattern) is {pattern!r}, which is not a regular "
                    f"expression: {error}. Correct it"
                )
                continue
            if matches_nothing:
                yield (
                    f"protect_pattern (--protect-pattern) is {pattern!r}, which also matches the "
                    "empty text. Use a pattern of at least one character"
                )
        if self.protect_marks is not None and len(self.protect_marks.split()) != 2:
            yield (
                f"protect_marks (--protect-marks) is {self.protect_marks!r}, but must be two marks "
                'separated by a space, such as "[[ ]]"'
            )


class ProtectionKeywords(TypedDict, total=False):
    """The fields of `ProtectionConfig` as keyword arguments; a test checks that they are equal."""

    protect: tuple[Protected, ...]
    protect_pattern: tuple[str, ...]
    protect_marks: str | None

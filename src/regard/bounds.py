"""Bounds of numeric settings and options: checked on input, listed in help and documentation."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ConfigError

_MAX_PRINTED_BITS = 200  # of an integer in a message
# Larger upper bounds only guard against typing errors; help and documentation omit them.
_DOCUMENTED_BELOW = 10**6


@dataclass(frozen=True)
class Bound:
    """A bound of a number; NaN satisfies none."""

    bound: float
    phrase: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.phrase} {format_value(self.bound)}"

    def is_satisfied_by(self, value: float) -> bool:
        """Whether a value satisfies the bound."""
        return bool(_COMPARISONS[type(self)](value, self.bound))

    @property
    def is_documented(self) -> bool:
        """Whether help and documentation list the bound."""
        return self.bound < _DOCUMENTED_BELOW


class Ge(Bound):
    """At least `bound`."""

    phrase = "at least"


class Le(Bound):
    """At most `bound`."""

    phrase = "at most"


class Lt(Bound):
    """Less than `bound`."""

    phrase = "below"


_COMPARISONS = {Ge: operator.ge, Le: operator.le, Lt: operator.lt}

# Upper bounds that several settings share.
LAYERS = Le(1000)
WIDTH = Le(100_000)
WEIGHT = Le(1000)  # of a term of the loss, relative to the main term
LENGTH = Le(10**6)  # tokens of a sequence
IDS = Le(10**7)  # vocabulary size
COUNT = Le(10**9)  # of steps, lines, checkpoints
SEED = Le(2**63 - 1)


def format_value(value: Any) -> str:
    """A value for a message; very large integers are abbreviated."""
    if isinstance(value, int) and value.bit_length() > _MAX_PRINTED_BITS:
        return f"a number of about {int(value.bit_length() * 0.30103)} digits"
    return str(value)


def to_float(value: float) -> float:
    """A number as a float; an integer beyond the range of floats becomes infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def format_bounds(bounds: Iterable[Bound]) -> list[str]:
    """Bounds as text, for help and the reference page: ["1 to 1000"], ["at least 1"]."""
    documented = [bound for bound in bounds if bound.is_documented]
    low, high = ([bound for bound in documented if isinstance(bound, cls)] for cls in (Ge, Le))
    if low and high and len(documented) == len(low) + len(high) == 2:
        return [f"{format_value(low[0].bound)} to {format_value(high[0].bound)}"]
    return [str(bound) for bound in documented]


def refuse_out_of_bounds(name: str, value: Any, *bounds: Bound) -> None:
    """Raise a `ConfigError` if a number is out of bounds."""
    for problem in bound_violations(bounds, name, value):
        raise ConfigError(f"{problem}.")


def bound_violations(bounds: Iterable[Bound], name: str, value: Any) -> Iterator[str]:
    """A message for each bound that a value violates."""
    for bound in bounds:
        if value is not None and not bound.is_satisfied_by(value):
            yield f"{name} is {format_value(value)}, but must be {bound}"

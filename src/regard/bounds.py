"""Bounds of numbers: settings and options are held to them, help and documentation list them."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from regard.errors import ConfigError

_LONGEST_SHOWN = 200  # bits of an integer in a message
# An upper bound from here on guards against typing errors; no page or help lists it.
_LISTED_BELOW = 10**6


@dataclass(frozen=True)
class Bound:
    """A limit of a number; NaN is within none."""

    bound: float
    words: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.words} {shown(self.bound)}"

    def holds(self, value: float) -> bool:
        """Whether a value keeps the bound."""
        return bool(_COMPARISONS[type(self)](value, self.bound))

    @property
    def is_listed(self) -> bool:
        """Whether people should read of it before they meet it."""
        return self.bound < _LISTED_BELOW


class Ge(Bound):
    """The field is at least `bound`."""

    words = "at least"


class Le(Bound):
    """The field is at most `bound`."""

    words = "at most"


class Lt(Bound):
    """The field is less than `bound`."""

    words = "below"


_COMPARISONS = {Ge: operator.ge, Le: operator.le, Lt: operator.lt}

# Upper bounds that several settings share.
LAYERS = Le(1000)
WIDTH = Le(100_000)
WEIGHT = Le(1000)  # of a part of a loss, beside 1 of the rest
LENGTH = Le(10**6)  # tokens of a row
IDS = Le(10**7)  # of a vocabulary
COUNT = Le(10**9)  # of steps, lines, checkpoints
SEED = Le(2**63 - 1)


def shown(value: Any) -> str:
    """A value for a message, shortened if it is long."""
    if isinstance(value, int) and value.bit_length() > _LONGEST_SHOWN:
        return f"a number of about {int(value.bit_length() * 0.30103)} digits"
    return str(value)


def as_float(value: float) -> float:
    """An integer as a float; one that no float holds becomes infinite, which no bound allows."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def limits(bounds: Iterable[Bound]) -> list[str]:
    """Bounds in words, for help and the reference page: ["1 to 1000"], ["at least 1"]."""
    listed = [bound for bound in bounds if bound.is_listed]
    low, high = ([bound for bound in listed if isinstance(bound, cls)] for cls in (Ge, Le))
    if low and high and len(listed) == len(low) + len(high) == 2:
        return [f"{shown(low[0].bound)} to {shown(high[0].bound)}"]
    return [str(bound) for bound in listed]


def refuse_out_of_bounds(name: str, value: Any, *bounds: Bound) -> None:
    """Say that a number is not within bounds."""
    for problem in beyond(bounds, name, value):
        raise ConfigError(f"{problem}.")


def beyond(bounds: Iterable[Bound], name: str, value: Any) -> Iterator[str]:
    """For each bound that a value does not keep, a text about it."""
    for bound in bounds:
        if value is not None and not bound.holds(value):
            yield f"{name} is {shown(value)}, and must be {bound}"

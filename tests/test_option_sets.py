"""Selection of one of several sets of options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from regard.bounds import Ge, Le
from regard.config import Doc
from regard.errors import ConfigError
from regard.option_sets import OptionSet, select


@dataclass(frozen=True)
class Bread(OptionSet):
    """Baked of flour."""

    main = "flour"
    partner = "dough"
    title = "bread"
    flour: Annotated[str | None, Doc("what it is made of")] = None
    dough: Annotated[str | None, Doc("what is made of that")] = None
    heat: Annotated[int, Doc("degrees"), Ge(50), Le(300)] = 180


@dataclass(frozen=True)
class Soup(OptionSet):
    """Boiled."""

    main = "water"
    title = "soup"
    water: Annotated[float | None, Doc("litres"), Ge(0), Le(10)] = None
    rolled_oats: Annotated[bool, Doc("whether there are any")] = False


SETS: list[type[OptionSet]] = [Bread, Soup]


def test_main_option_or_its_partner_selects_the_set() -> None:
    assert select(SETS, {"water": 2.0}, "meals") == Soup(2.0)
    assert select(SETS, {"dough": "sour", "heat": 200}, "meals") == Bread(None, "sour", 200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"No meals are given. Use one of --flour \(bread\), --water \(soup\)."),
        (
            {"flour": "rye", "water": 1.0},
            "--flour and --water are mutually exclusive meals. Give one of",
        ),
        ({"flour": "rye", "rolled_oats": True}, "--rolled-oats: no effect on bread. Leave it out."),
        ({"dough": "sour", "heat": 3}, "These meals cannot be used: heat is 3, but must be"),
    ],
)
def test_invalid_combinations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        select(SETS, options, "meals")

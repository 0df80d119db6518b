"""Sets of options of which a command line gives one: that whose main option is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from regard.config import Settings, build, settings_of
from regard.errors import ConfigError

Set = TypeVar("Set", bound="OptionSet")


@dataclass(frozen=True)
class OptionSet(Settings):
    """Options that belong together; `main` is the field that says that they are meant."""

    main: ClassVar[str]
    partner: ClassVar[str] = ""  # another field that says so
    title: ClassVar[str]  # what they are about


def select(sets: Sequence[type[Set]], given: Mapping[str, Any], what: str) -> Set:
    """The set that the given options mean; options of other sets are refused."""
    chosen = [cls for cls in sets if given.get(cls.main) or given.get(cls.partner)]
    if not chosen:
        names = ", ".join(f"{option_of(cls.main)} ({cls.title})" for cls in sets)
        raise ConfigError(f"No {what} are given. Use one of {names}.")
    if len(chosen) > 1:
        names = " and ".join(option_of(cls.main) for cls in chosen)
        raise ConfigError(f"{names} are different {what}. Give one of them.")
    (cls,) = chosen
    known = {setting.name for setting in settings_of(cls)}
    elsewhere = {setting.name for other in sets for setting in settings_of(other)}
    others = [option_of(name) for name in given if name in elsewhere - known]
    if others:
        raise ConfigError(f"{', '.join(others)}: no effect on {cls.title}. Leave it out.")
    return build(cls, given, heading=f"These {what} cannot be used")


def option_of(field: str) -> str:
    """How the command line writes a field."""
    return f"--{field.replace('_', '-')}"

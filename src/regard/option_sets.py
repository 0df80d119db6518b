"""Mutually exclusive sets of command line options, selected by their main option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from regard.config import Settings, build, settings_of
from regard.errors import ConfigError

Set = TypeVar("Set", bound="OptionSet")


@dataclass(frozen=True)
class OptionSet(Settings):
    """Options that belong together; giving the field `main` selects the set."""

    main: ClassVar[str]
    partner: ClassVar[str] = ""  # another field that selects the set
    title: ClassVar[str]  # in messages


def select(sets: Sequence[type[Set]], options: Mapping[str, Any], noun: str) -> Set:
    """Build the set that the options select; options of other sets raise an error.

    `noun` names the options in messages.
    """
    selected = [cls for cls in sets if options.get(cls.main) or options.get(cls.partner)]
    if not selected:
        names = ", ".join(f"{option_name(cls.main)} ({cls.title})" for cls in sets)
        raise ConfigError(f"No {noun} are given. Use one of {names}.")
    if len(selected) > 1:
        names = " and ".join(option_name(cls.main) for cls in selected)
        raise ConfigError(f"{names} are mutually exclusive {noun}. Give one of them.")
    (cls,) = selected
    known = {setting.name for setting in settings_of(cls)}
    all_names = {setting.name for other in sets for setting in settings_of(other)}
    others = [option_name(name) for name in options if name in all_names - known]
    if others:
        raise ConfigError(f"{', '.join(others)}: no effect on {cls.title}. Leave it out.")
    return build(cls, options, heading=f"These {noun} cannot be used")


def option_name(field: str) -> str:
    """The command line option of a field."""
    return f"--{field.replace('_', '-')}"

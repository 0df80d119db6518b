"""Which options of a command line were given; those that mean nothing there are refused."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

import typer

from regard.config import Settings
from regard.errors import ConfigError


def is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was given, and is not at its default by itself."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def given_settings(context: typer.Context, cls: type[Settings]) -> dict[str, Any]:
    """The options that were given and are settings of this class, by name."""
    names = {field.name for field in fields(cls)}
    return {
        name: value
        for name, value in context.params.items()
        if name in names and is_given(context, name)
    }


def refuse_options(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse those that were given and have no effect here."""
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in names and is_given(context, option.name)
    ]
    if given:
        raise ConfigError(f"{', '.join(given)}: {why}")

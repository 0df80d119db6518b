"""The class of every verb: what holds for all command lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand

from regard.errors import ConfigError

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Verb(TyperCommand):
    """A verb whose options are given once, unless they are lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse an option that is repeated: click would silently take the last."""
        _, _, given = self.make_parser(ctx).parse_args(args=[*args])
        if not any(option.is_eager for option in given):  # --help needs no correct options
            _refuse_repetition(given)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; typer would end the process with status 1, without a word, after these."""
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise RuntimeError(f"{type(error).__name__} {error}".rstrip()) from error


def _refuse_repetition(given: Iterable[Any]) -> None:
    seen = set()
    for option in given:
        if option.param_type_name != "option" or option.multiple:
            continue
        if option.name in seen:
            names = "/".join([*option.opts, *option.secondary_opts])
            raise ConfigError(f"{names} is given more than once. Give it once.")
        seen.add(option.name)


class Verbs(typer.Typer):
    """A group of verbs."""

    def command(self, name: str | None = None, **keywords: Any) -> Callable[[_Function], _Function]:
        """As typer's, with our class of commands."""
        return super().command(name, **{"cls": Verb, **keywords})

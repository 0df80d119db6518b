"""The class of every verb: what holds for all command lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from regard.cli.command import expanded
from regard.cli.hints import meaning
from regard.errors import ConfigError

_Function = TypeVar("_Function", bound=Callable[..., Any])


class Verb(TyperCommand):
    """A verb whose options are given once, unless they are lists."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse an option that is repeated: click would silently take the last."""
        given = self._given(ctx, args)
        if not any(option.is_eager for option in given):  # --help needs no correct options
            _refuse_repetition(given)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def make_parser(self, ctx: Any) -> Any:
        """The parser, which also accepts the old names of options."""
        parser: Any = super().make_parser(ctx)
        options = {option.name: option for option in self.params}
        for alias, name in getattr(self.callback, "aliases", {}).items():
            old, is_value, value = alias.partition("=")
            option, keywords = options[name], {"opts": [old], "dest": name}
            if is_value:
                parser.add_option(option, action="store_const", const=value, **keywords)
            else:
                action = "append" if option.multiple else "store"
                parser.add_option(option, action=action, nargs=option.nargs, **keywords)
        return parser

    def _given(self, ctx: Any, args: list[str]) -> list[Any]:
        """The options that a command line gives."""
        try:
            _, _, given = self.make_parser(ctx).parse_args(args=[*args])
        except Exception as error:
            option = getattr(error, "option_name", None)
            if not hasattr(error, "possibilities"):  # of typer's error about unknown options alone
                raise
            verb = verb_name(ctx)
            known = [name for one in self.params for name in (*one.opts, *one.secondary_opts)]
            raise ConfigError(
                f"`{verb}` has no option {option}. {meaning(verb, str(option), known)}"
            ) from None
        return list(given)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; typer would end the process with status 1, without a word, after these."""
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise RuntimeError(f"{type(error).__name__} {error}".rstrip()) from error


def verb_name(ctx: Any) -> str:
    """What follows `regard` on the command line: "translate", "show mask"."""
    parents = "" if ctx.parent is None or ctx.parent.parent is None else f"{verb_name(ctx.parent)} "
    return f"{parents}{ctx.info_name}"


def refuse_undecodable(words: Iterable[str]) -> None:
    """Refuse arguments that are not UTF-8, before any of them ends up in a file of JSON."""
    for number, word in enumerate(words, 1):
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = os.fsencode(word).decode("utf-8", "backslashreplace")
            raise ConfigError(
                f"Argument {number} is not valid UTF-8: '{shown}'. Convert the text, or rename "
                "the file or folder."
            ) from None


def _refuse_repetition(given: Iterable[Any]) -> None:
    seen = set()
    for option in given:
        if option.param_type_name != "option" or option.multiple:
            continue
        if option.name in seen:
            names = "/".join([*option.opts, *option.secondary_opts])
            raise ConfigError(f"{names} is given more than once. Give it once.")
        seen.add(option.name)


class Group(TyperGroup):
    """A group of verbs, whose own options are given once, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and refuse an option that is repeated before the verb."""
        with suppress(typer.TyperException):  # which the next line raises again
            _refuse_repetition(self.make_parser(ctx).parse_args(args=[*args])[2])
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class Verbs(typer.Typer):
    """A group of verbs."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"cls": Group, **keywords})

    def command(self, name: str | None = None, **keywords: Any) -> Callable[[_Function], _Function]:
        """As typer's, with our class of commands, and settings as options."""
        register = super().command(name, **{"cls": Verb, **keywords})

        def registered(function: _Function) -> _Function:
            register(expanded(function))
            return function

        return registered

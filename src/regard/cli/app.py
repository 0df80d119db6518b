"""Command, group and app classes with checks that apply to every command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from regard.cli.command import expand_settings
from regard.errors import ConfigError
from regard.progress import notify

_Function = TypeVar("_Function", bound=Callable[..., Any])


class StrictCommand(TyperCommand):
    """A command that refuses repeated options and accepts deprecated option names."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; raise an error if an option is repeated, where click would use the last value."""
        options = self._parse_options(ctx, args)
        if not any(option.is_eager for option in options):  # --help works beside wrong options
            _refuse_repetition(options)
            self._report_deprecated(args)
        rest: list[str] = super().parse_args(ctx, args)
        return rest

    def make_parser(self, ctx: Any) -> Any:
        """A parser that also accepts the deprecated names of options."""
        parser: Any = super().make_parser(ctx)
        for old, value, option in self._deprecated_names():
            keywords = {"opts": [old], "dest": option.name}
            if value:
                parser.add_option(option, action="store_const", const=value, **keywords)
            else:
                action = "append" if option.multiple else "store"
                parser.add_option(option, action=action, nargs=option.nargs, **keywords)
        return parser

    def _deprecated_names(self) -> Iterator[tuple[str, str, Any]]:
        """Each deprecated name, the value that it stands for ("" if it takes one), its option."""
        options = {option.name: option for option in self.params}
        for name, parameter in getattr(self.callback, "deprecated", {}).items():
            old, _, value = name.partition("=")
            yield old, value, options[parameter]

    def _report_deprecated(self, args: list[str]) -> None:
        """Print a notice with the new name of each deprecated option on the command line."""
        flags = {
            arg.partition("=")[0] for arg in (args[: args.index("--")] if "--" in args else args)
        }
        for old, value, option in self._deprecated_names():
            if old not in flags:
                continue
            new = f"{option.opts[0]} {value}".rstrip()
            if value and option.is_flag:
                new = option.opts[0] if value == "true" else option.secondary_opts[0]
            notify(f"{old} is deprecated. Use {new}.")

    def _parse_options(self, ctx: Any, args: list[str]) -> list[Any]:
        """The options on a command line, in order."""
        try:
            _, _, options = self.make_parser(ctx).parse_args(args=[*args])
        except Exception as error:
            option = getattr(error, "option_name", None)
            if not hasattr(error, "possibilities"):  # only typer's error for unknown options has it
                raise
            from regard.cli.hints import suggest_option  # rarely needed

            command = command_name(ctx)
            known = [name for param in self.params for name in (*param.opts, *param.secondary_opts)]
            hint = suggest_option(command, str(option), known)
            raise ConfigError(f"`{command}` has no option {option}. {hint}") from None
        return list(options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; typer would exit silently with status 1 after these exceptions."""
        try:
            return super().invoke(ctx)
        except (EOFError, BrokenPipeError) as error:
            raise RuntimeError(f"{type(error).__name__} {error}".rstrip()) from error


def command_name(ctx: Any) -> str:
    """The subcommand as on the command line: "translate", "show mask"."""
    parents = (
        "" if ctx.parent is None or ctx.parent.parent is None else f"{command_name(ctx.parent)} "
    )
    return f"{parents}{ctx.info_name}"


def refuse_undecodable(arguments: Iterable[str]) -> None:
    """Raise an error if an argument is not valid UTF-8; it could not be written to JSON files."""
    for number, argument in enumerate(arguments, 1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            escaped = os.fsencode(argument).decode("utf-8", "backslashreplace")
            raise ConfigError(
                f"Argument {number} is not valid UTF-8: '{escaped}'. Convert the text, or rename "
                "the file or folder."
            ) from None


def _refuse_repetition(options: Iterable[Any]) -> None:
    seen = set()
    for option in options:
        if option.param_type_name != "option" or option.multiple:
            continue
        if option.name in seen:
            names = "/".join([*option.opts, *option.secondary_opts])
            raise ConfigError(f"{names} is given more than once. Give it once.")
        seen.add(option.name)


class StrictGroup(TyperGroup):
    """A group of commands that refuses repeated options of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; raise an error if an option before the subcommand is repeated."""
        with suppress(typer.TyperException):  # raised again by the next line
            _refuse_repetition(self.make_parser(ctx).parse_args(args=[*args])[2])
        rest: list[str] = super().parse_args(ctx, args)
        return rest


class App(typer.Typer):
    """A typer app whose commands take settings classes as parameters."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**{"cls": StrictGroup, **keywords})

    def command(self, name: str | None = None, **keywords: Any) -> Callable[[_Function], _Function]:
        """Register a function as a `StrictCommand`, with its settings classes as options."""
        register = super().command(name, **{"cls": StrictCommand, **keywords})

        def decorate(function: _Function) -> _Function:
            register(expand_settings(function))
            return function

        return decorate

"""Checks of command lines that all commands share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.commands import Command, regard
from regard.cli import build_app
from regard.cli.app import StrictCommand, refuse_undecodable
from regard.errors import ConfigError

__all__ = ["regard"]  # a fixture


def all_commands(
    command: Any, arguments: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below a group, with the words that call them."""
    if not hasattr(command, "commands"):
        yield arguments, command
        return
    for name, other in command.commands.items():
        yield from all_commands(other, (*arguments, name))


COMMANDS = [*all_commands(typer.main.get_command(build_app()))]


def values(option: Any) -> list[str]:
    """What is typed after an option; it is refused before its value is looked at."""
    return [] if option.is_flag else ["1"]


@pytest.mark.parametrize(("arguments", "command"), COMMANDS, ids=str)
def test_repeated_option_is_refused(arguments: tuple[str, ...], command: Any) -> None:
    assert isinstance(command, StrictCommand)
    for option in command.params:
        if option.param_type_name != "option" or option.multiple:
            continue
        for second in (*option.opts, *option.secondary_opts):
            typed = [option.opts[0], *values(option), second, *values(option)]
            with pytest.raises(ConfigError, match=f"{option.opts[0]}.* is given more than once"):
                command.make_context(arguments[-1], typed)


def test_repeated_option_is_reported(regard: Command) -> None:
    result = regard("translate", "nowhere", "--buffer-size", "1", "--buffer-size=2")
    assert result.status == 2
    assert result.err == "regard: --buffer-size is given more than once. Give it once.\n"


def test_repeated_global_option_is_refused(regard: Command) -> None:
    twice = ["--max-line-length", "5", "--max-line-length=50"]
    for arguments in (twice, [*twice, "show"], [*twice, "show", "mask"]):
        result = regard(*arguments)
        assert result.status == 2
        assert result.err == "regard: --max-line-length is given more than once. Give it once.\n"
    assert regard("--max-line-length", "5", "show", "mask").status == 0


def test_repeated_setting_is_refused(regard: Command) -> None:
    for second in ("training.seed=1", "training.seed=2", " training.seed =2"):
        result = regard("show", "schedule", "--set", "training.seed=1", "--set", second)
        assert result.status == 2
        assert result.err == "regard: --set training.seed is given more than once. Give it once.\n"


def test_list_options_may_be_repeated(regard: Command) -> None:
    lists = {
        (arguments, option.opts[0])
        for arguments, command in COMMANDS
        for option in command.params
        if getattr(option, "multiple", False)
    }
    assert (("train",), "--set") in lists
    result = regard("train", "--set", "training.max_steps=3", "--set", "nonsense")
    assert "more than once" not in result.err


def test_help_works_with_wrong_options(regard: Command) -> None:
    assert regard("translate", "--buffer-size", "1", "--buffer-size", "1", "--help").status == 0


@given(argument=st.binary(min_size=1, max_size=20).filter(lambda data: b"\0" not in data))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_argument_that_is_not_utf8_is_refused(argument: bytes, regard: Command) -> None:
    try:
        argument.decode()
    except UnicodeDecodeError:
        result = regard("show", "mask", os.fsdecode(argument))
        assert result.status == 2
        assert "Argument 3 is not valid UTF-8" in result.err
    else:
        refuse_undecodable([os.fsdecode(argument)])

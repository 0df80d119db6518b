"""What holds for the command lines of all verbs."""

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
from regard.cli.verbs import Verb, refuse_undecodable
from regard.errors import ConfigError

__all__ = ["regard"]  # a fixture


def verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below a group, with the words that call them."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, other in command.commands.items():
        yield from verbs(other, (*words, name))


VERBS = [*verbs(typer.main.get_command(build_app()))]


def values(option: Any) -> list[str]:
    """What is typed after an option; it is refused before its value is looked at."""
    return [] if option.is_flag else ["1"]


@pytest.mark.parametrize(("words", "command"), VERBS, ids=str)
def test_a_repeated_option_is_refused(words: tuple[str, ...], command: Any) -> None:
    assert isinstance(command, Verb)
    for option in command.params:
        if option.param_type_name != "option" or option.multiple:
            continue
        for second in (*option.opts, *option.secondary_opts):
            typed = [option.opts[0], *values(option), second, *values(option)]
            with pytest.raises(ConfigError, match=f"{option.opts[0]}.* is given more than once"):
                command.make_context(words[-1], typed)


def test_the_command_says_so(regard: Command) -> None:
    done = regard("translate", "nowhere", "--buffer", "1", "--buffer=2")
    assert done.status == 2
    assert done.err == "regard: --buffer is given more than once. Give it once.\n"


def test_options_before_the_verb_are_given_once(regard: Command) -> None:
    twice = ["--max-line-length", "5", "--max-line-length=50"]
    for words in (twice, [*twice, "show"], [*twice, "show", "mask"]):
        done = regard(*words)
        assert done.status == 2
        assert done.err == "regard: --max-line-length is given more than once. Give it once.\n"
    assert regard("--max-line-length", "5", "show", "mask").status == 0


def test_a_setting_is_given_once(regard: Command) -> None:
    for second in ("training.seed=1", "training.seed=2", " training.seed =2"):
        done = regard("show", "schedule", "--set", "training.seed=1", "--set", second)
        assert done.status == 2
        assert done.err == "regard: --set training.seed is given more than once. Give it once.\n"


def test_lists_may_be_repeated(regard: Command) -> None:
    lists = {
        (words, option.opts[0])
        for words, command in VERBS
        for option in command.params
        if getattr(option, "multiple", False)
    }
    assert (("train",), "--set") in lists
    done = regard("train", "--set", "training.max_steps=3", "--set", "nonsense")
    assert "more than once" not in done.err


def test_help_needs_no_correct_options(regard: Command) -> None:
    assert regard("translate", "--buffer", "1", "--buffer", "1", "--help").status == 0


@given(argument=st.binary(min_size=1, max_size=20).filter(lambda data: b"\0" not in data))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_argument_that_is_not_utf8_is_refused(argument: bytes, regard: Command) -> None:
    try:
        argument.decode()
    except UnicodeDecodeError:
        done = regard("show", "mask", os.fsdecode(argument))
        assert done.status == 2
        assert "Argument 3 is not valid UTF-8" in done.err
    else:
        refuse_undecodable([os.fsdecode(argument)])

"""What holds for the command lines of all verbs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from cli.commands import Command, regard
from regard.cli import app
from regard.cli.verbs import Verb

__all__ = ["regard"]  # a fixture


def verbs(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands below a group, with the words that call them."""
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, other in command.commands.items():
        yield from verbs(other, (*words, name))


VERBS = [*verbs(typer.main.get_command(app))]


def values(option: Any) -> list[str]:
    """What is typed after an option; it is refused before its value is looked at."""
    return [] if option.is_flag else ["1"]


@pytest.mark.parametrize(("words", "command"), VERBS, ids=lambda value: str(value))
def test_a_repeated_option_is_refused(
    words: tuple[str, ...], command: Any, regard: Command
) -> None:
    assert isinstance(command, Verb)
    for option in command.params:
        if option.param_type_name != "option" or option.multiple:
            continue
        for second in (*option.opts, *option.secondary_opts):
            done = regard(*words, option.opts[0], *values(option), second, *values(option))
            assert done.status == 2, (option.name, done.err)
            assert option.opts[0] in done.err
            assert "is given more than once" in done.err


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

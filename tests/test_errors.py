"""Exit statuses of errors, and messages with several problems."""

from __future__ import annotations

import signal

import pytest

from regard import errors
from regard.errors import (
    DivergedError,
    ProcessLostError,
    RegardError,
    StoppedError,
    format_problems,
)


def test_docstring_lists_all_errors() -> None:
    drawn = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if "──" in line]
    assert drawn == [cls.__name__ for cls in RegardError.__subclasses__()]


def test_user_errors_exit_with_2() -> None:
    causes = {cls for cls in RegardError.__subclasses__() if cls is not StoppedError}
    assert {cls.exit_status for cls in causes - {DivergedError, ProcessLostError}} == {2}


def test_failed_runs_exit_with_1() -> None:
    assert DivergedError("the loss is nan").exit_status == 1
    assert ProcessLostError("another process is gone").exit_status == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_run_exits_with_128_plus_signal(number: int, status: int) -> None:
    assert StoppedError("stopped", signal_number=number).exit_status == status


def test_single_problem_is_one_line() -> None:
    assert format_problems(["a is 1"], "It cannot be") == "It cannot be: a is 1"


def test_several_problems_are_counted_and_listed() -> None:
    lines = format_problems(["a is 1", "b is 2"], "It cannot be").splitlines()
    assert "2 problems" in lines[0]
    assert lines[1:] == ["  - a is 1", "  - b is 2"]

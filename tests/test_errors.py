"""Exit statuses, and all problems in one message."""

from __future__ import annotations

import signal

import pytest

from regard import errors
from regard.errors import DivergedError, LostError, RegardError, StoppedError, one_message


def test_the_drawn_tree_shows_every_error_and_no_other() -> None:
    drawn = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if "──" in line]
    assert drawn == [cls.__name__ for cls in RegardError.__subclasses__()]


def test_what_a_user_caused_exits_with_2() -> None:
    causes = {cls for cls in RegardError.__subclasses__() if cls is not StoppedError}
    assert {cls.exit_status for cls in causes - {DivergedError, LostError}} == {2}


def test_a_run_that_fails_by_itself_exits_with_1() -> None:
    assert DivergedError("the loss is nan").exit_status == 1
    assert LostError("another process is gone").exit_status == 1


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_exits_as_shells_expect(number: int, status: int) -> None:
    assert StoppedError("stopped", signal_number=number).exit_status == status


def test_one_problem_is_one_line() -> None:
    assert one_message(["a is 1"], "It cannot be") == "It cannot be: a is 1"


def test_several_problems_are_counted_and_listed() -> None:
    lines = one_message(["a is 1", "b is 2"], "It cannot be").splitlines()
    assert "2 problems" in lines[0]
    assert lines[1:] == ["  - a is 1", "  - b is 2"]

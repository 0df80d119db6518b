"""What people see: notices and bars on standard error, so that output is output; and tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from math import exp
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

# Text is shown as it is: a "[b]" or a ":cat:" in it is no instruction to rich.
console = Console(stderr=True, highlight=False, markup=False, emoji=False)
_SECONDS_A_LINE = 30  # in a log file, where no bar can be drawn
_NOTICES = 3  # of one kind
_ENDLESS = 100_000  # columns: no line is folded


def say(text: str) -> None:
    """A notice."""
    console.print(text, soft_wrap=True)


@contextmanager
def sparingly() -> Iterator[Callable[[str], None]]:
    """A function that says the first few of many notices about lines; the rest are counted."""
    told = 0

    def notice(text: str) -> None:
        nonlocal told
        told += 1
        if told <= _NOTICES:
            say(text)

    try:
        yield notice
    finally:
        more = told - _NOTICES
        if more > 0:
            say(f"The same goes for {more:,} more line{'s' if more > 1 else ''}.")


def rate(lines: int, seconds: float) -> str:
    """How long some lines took."""
    counted = "1 line" if lines == 1 else f"{lines:,} lines"
    each = lines / max(seconds, 1e-9)
    speed = f"{each:,.0f}" if each >= 10 else f"{each:.2g}"
    return f"{counted} in {seconds:.2f} s, {speed} a second."


def written(picture: Path, complete: bool) -> None:
    """Where a picture is, and whether the fonts had all its characters."""
    say(f"Written: {picture}")
    if not complete:
        say("Some characters are not in the fonts here; install one, such as Noto Sans CJK.")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A plain table; numbers stand to the right, those with a fraction cut to two digits."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for number, name in enumerate(columns):
        numeric = bool(rows) and isinstance(rows[0][number], int | float)
        made.add_column(name, justify="right" if numeric else "left", no_wrap=number == 0)
    for row in rows:
        made.add_row(*map(_cell, row))
    return made


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def show(made: Table) -> None:
    """A table as output: folded to the width of a terminal, whole in a file or a pipe."""
    page = Console(highlight=False, markup=False, emoji=False)
    if page.is_terminal:
        page.print(made)
        return
    page.width = _ENDLESS
    with page.capture() as text:
        page.print(made)
    print("\n".join(line.rstrip(" ") for line in text.get().removesuffix("\n").split("\n")))


@contextmanager
def counting(total: int | None = None) -> Iterator[Any]:
    """A function (task, done) that draws a bar, or a count where no total is known."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"))
    with Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        tasks: dict[str, TaskID] = {}

        def count(task: str, done: int) -> None:
            if task not in tasks:
                tasks[task] = progress.add_task(task, total=total)
            progress.update(tasks[task], completed=done)

        yield count


@contextmanager
def pace(task: str, done: int, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A function (done) that shows how much of a total that is, how fast it goes, and what is left.

    On a terminal it is a bar; in a log file, a line now and then.
    """
    with Progress(
        TextColumn("{task.description} {task.completed:,} of {task.total:,}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[figures]}"),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task(task, total=total, completed=done, figures="starting")
        began, first = time.monotonic(), done
        last_line = began

        def show_pace(done: int) -> None:
            nonlocal last_line
            now = time.monotonic()
            rate = (done - first) / (now - began)
            left = timedelta(seconds=round((total - done) / rate))
            figures = f"{rate:,.0f} {unit}/s  left {left}"
            progress.update(bar, completed=done, figures=figures)
            if not console.is_terminal and now - last_line > _SECONDS_A_LINE:
                say(f"{task} {done:,} of {total:,}  {figures}")
                last_line = now

        yield show_pace


class TrainingBar:
    """The progress bar of a training run; a `Watcher`."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("step {task.completed:,} of {task.total:,}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._last_line = time.monotonic()
        self._task: TaskID | None = None
        self.advanced = False

    def __enter__(self) -> TrainingBar:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def begin(self, step: int, max_steps: int, about: str) -> None:
        """The run starts, or goes on, at this step."""
        if step < max_steps:
            say(about)
        if step:
            say(f"Going on from step {step:,}.")
        self._task = self._progress.add_task(
            "train", total=max_steps, completed=step, figures="starting"
        )

    def step(self, step: int) -> None:
        """An update is done."""
        assert self._task is not None
        self.advanced = True
        self._progress.update(self._task, completed=step)

    def row(self, row: dict[str, Any]) -> None:
        """Training rows change the bar; validation rows stay on the screen."""
        assert self._task is not None
        step = f"step {row['step']:>7,}  "
        if "valid_loss" in row:
            say(step + _validation(row))
            if "mean_valid_loss" in row:
                mean = {name.removeprefix("mean_"): row[name] for name in row if "mean_" in name}
                say(f"{'':{len(step)}}mean of the best: {_validation(mean)}")
            return
        figures = (
            f"loss {row['loss']:.3f}  perplexity {row['perplexity']:.2f}  "
            f"{row['tokens_per_second']:,.0f} tokens/s"
        )
        self._progress.update(self._task, figures=figures)
        if not console.is_terminal and time.monotonic() - self._last_line > _SECONDS_A_LINE:
            say(step + figures)
            self._last_line = time.monotonic()


def _validation(row: dict[str, Any]) -> str:
    if "accuracy" in row:
        more = f"accuracy {100 * row['accuracy']:.2f} %"
    elif "bleu" in row:
        more = f"BLEU {row['bleu']:.1f}"
    else:
        more = f"perplexity {exp(row['valid_loss']):.2f}"
    return f"validation loss {row['valid_loss']:.3f}  {more}"

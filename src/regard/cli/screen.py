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
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from regard.cli.heartbeat import heartbeat

# Text is shown as it is: a "[b]" or a ":cat:" in it is no instruction to rich.
console = Console(stderr=True, highlight=False, markup=False, emoji=False)
_NOTICES = 3  # of one kind
_ENDLESS = 100_000  # columns: no line is folded


def say(text: str) -> None:
    """A notice."""
    console.print(text, soft_wrap=True)


def be_quiet() -> None:
    """No notices from here on: another process of the same run writes them."""
    console.quiet = True
    heartbeat.stop()


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


class ProgressDisplay:
    """How far named tasks are: bars on a terminal, elsewhere a line of the heartbeat now and then.

    With `keep`, the bars stay on the screen at the end.
    """

    def __init__(self, *, keep: bool = False) -> None:
        self._bars = Progress(
            TextColumn("{task.description} {task.fields[count]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[figures]}"),
            console=console,
            transient=not keep,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._begun: dict[str, tuple[float, int]] = {}  # when, and how much was done then

    def __enter__(self) -> ProgressDisplay:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()
        heartbeat.status = ""

    def update(self, task: str, done: int, total: int | None = None, figures: str = "") -> None:
        """So much of a task is done, of a total if that is known."""
        count = f"{done:,}" if total is None else f"{done:,} of {total:,}"
        if task not in self._tasks:
            self._tasks[task] = self._bars.add_task(task, total=total, count=count, figures="")
            self._begun[task] = time.monotonic(), done
        if total is not None:
            figures += self._left(task, done, total)
        heartbeat.status = f"{task} {count}  {figures}".rstrip()
        self._bars.update(self._tasks[task], completed=done, count=count, figures=figures)

    def _left(self, task: str, done: int, total: int) -> str:
        """How long the rest takes at the same rate; nothing before anything is done."""
        begun, first = self._begun[task]
        if done <= first:
            return ""
        seconds = (time.monotonic() - begun) / (done - first) * (total - done)
        return f"  left {timedelta(seconds=round(seconds))}"


@contextmanager
def counting() -> Iterator[Callable[[str, int], None]]:
    """A function (task, done) that shows a count."""
    with ProgressDisplay() as display:
        yield display.update


@contextmanager
def pace(task: str, done: int, total: int, unit: str) -> Iterator[Callable[[int], None]]:
    """A function (done) that shows how much of a total that is, and how fast it goes."""
    began, first = time.monotonic(), done
    with ProgressDisplay() as display:
        display.update(task, done, total, "starting")

        def show_pace(done: int) -> None:
            rate = (done - first) / max(time.monotonic() - began, 1e-9)
            display.update(task, done, total, f"{rate:,.0f} {unit}/s")

        yield show_pace


class TrainingBar:
    """The progress bar of a training run; a `Watcher`."""

    def __init__(self) -> None:
        self._display = ProgressDisplay(keep=True)
        self._step, self._max_steps, self._figures = 0, 0, "starting"
        self.advanced = False

    def __enter__(self) -> TrainingBar:
        self._display.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.__exit__(*error)

    def begin(self, step: int, max_steps: int, about: str) -> None:
        """The run starts, or goes on, at this step."""
        if step < max_steps:
            say(about)
        if step:
            say(f"Going on from step {step:,}.")
        self._max_steps = max_steps
        self._show(step)

    def step(self, step: int) -> None:
        """An update is done."""
        self.advanced = True
        self._show(step)

    def _show(self, step: int) -> None:
        self._step = step
        self._display.update("step", step, self._max_steps, self._figures)

    def row(self, row: dict[str, Any]) -> None:
        """Training rows change the bar; validation rows stay on the screen."""
        if "valid_loss" in row:
            step = f"step {row['step']:>7,}  "
            say(step + _validation(row))
            if "mean_valid_loss" in row:
                mean = {name.removeprefix("mean_"): row[name] for name in row if "mean_" in name}
                say(f"{'':{len(step)}}mean of the best: {_validation(mean)}")
            return
        self._figures = (
            f"loss {row['loss']:.3f}  perplexity {row['perplexity']:.2f}  "
            f"{row['tokens_per_second']:,.0f} tokens/s"
        )
        self._show(self._step)


def _validation(row: dict[str, Any]) -> str:
    if "accuracy" in row:
        more = f"accuracy {100 * row['accuracy']:.2f} %"
    elif "bleu" in row:
        more = f"BLEU {row['bleu']:.1f}"
    else:
        more = f"perplexity {exp(row['valid_loss']):.2f}"
    return f"validation loss {row['valid_loss']:.3f}  {more}"

"""Notices and progress on standard error: bars, or a line every half minute where none can be."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import exp, inf
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

# Text is shown as it is: a "[b]" or a ":cat:" in it is no instruction to rich.
console = Console(stderr=True, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A notice."""
    console.print(text, soft_wrap=True)


class Heartbeat:
    """Reports progress from a thread of its own, so that no long work is silent.

    `status` is what the lines say; `seconds` lie between them.
    """

    def __init__(self, seconds: float = 30.0) -> None:
        self.status = ""
        self.seconds = seconds
        self._ended = threading.Event()

    def __enter__(self) -> Heartbeat:
        self.status, self._ended = "", threading.Event()
        if not sys.stderr.isatty():
            threading.Thread(target=self._beat, args=[self._ended], daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """No more lines: the command has ended, or another process of the same run writes them."""
        self._ended.set()

    def _beat(self, ended: threading.Event) -> None:
        begun = time.monotonic()
        while not ended.wait(self.seconds):
            elapsed = timedelta(seconds=round(time.monotonic() - begun))
            line = f"{self.status or 'working'}  ({elapsed} elapsed)\n"
            try:
                # Not through sys.stderr: a process forked while its lock is held would hang.
                os.write(2, line.encode("utf-8", "backslashreplace"))
            except OSError:
                return


heartbeat = Heartbeat()


def be_quiet() -> None:
    """No notices from here on: another process of the same run writes them."""
    console.quiet = True
    heartbeat.stop()


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

    def __enter__(self) -> Self:
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


class TrainingBar(ProgressDisplay):
    """The progress bar of a training run; a `Watcher`."""

    def __init__(self) -> None:
        super().__init__(keep=True)
        self._step, self._max_steps, self._figures = 0, 0, "starting"
        self.advanced = False

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
        self.update("step", step, self._max_steps, self._figures)

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
    """The loss and the metrics of a task, or the perplexity if it has none."""
    beside = ("step", "seconds", "valid_loss")
    metrics = {name: row[name] for name in row if name not in beside and "mean_" not in name}
    shown = {"accuracy": lambda value: f"{100 * value:.2f} %", "bleu": lambda value: f"{value:.1f}"}
    named = [
        f"{'BLEU' if name == 'bleu' else name.replace('_', ' ')} "
        + shown.get(name, lambda value: f"{value:.3f}")(value)
        for name, value in metrics.items()
    ]
    loss = row["valid_loss"]
    perplexity = exp(loss) if loss < 700 else inf
    return "  ".join([f"validation loss {loss:.3f}", *(named or [f"perplexity {perplexity:.2f}"])])

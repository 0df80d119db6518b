"""Notices and progress on standard error: bars on a terminal, elsewhere a line every 30 seconds."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from math import exp, inf
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import TaskID

# Text is printed verbatim: rich would interpret "[b]" or ":cat:".
console = Console(stderr=True, highlight=False, markup=False, emoji=False)


def notify(text: str) -> None:
    """Print a notice."""
    console.print(text, soft_wrap=True)


class Heartbeat:
    """Prints `status` from a background thread, every `seconds` seconds."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.status = ""
        self.seconds = seconds
        self._stopped = threading.Event()

    def __enter__(self) -> Heartbeat:
        self.status, self._stopped = "", threading.Event()
        if not sys.stderr.isatty():
            threading.Thread(target=self._run, args=[self._stopped], daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Print no more lines: the command has ended, or this is not the main process."""
        self._stopped.set()

    def _run(self, stopped: threading.Event) -> None:
        start = time.monotonic()
        while not stopped.wait(self.seconds):
            elapsed = timedelta(seconds=round(time.monotonic() - start))
            line = f"{self.status or 'working'}  ({elapsed} elapsed)\n"
            try:
                # Not sys.stderr: a process forked while its lock is held would deadlock.
                os.write(2, line.encode("utf-8", "backslashreplace"))
            except OSError:
                return


heartbeat = Heartbeat()


def silence() -> None:
    """Suppress notices and progress, in processes other than the main one."""
    console.quiet = True
    heartbeat.stop()


class ProgressDisplay:
    """Progress of named tasks: bars on a terminal, elsewhere lines of the heartbeat.

    With `keep`, the bars remain on the screen at the end.
    """

    def __init__(self, *, keep: bool = False) -> None:
        from rich.progress import BarColumn, Progress, TextColumn  # not needed for help

        self._bars = Progress(
            TextColumn("{task.description} {task.fields[count]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[metrics]}"),
            console=console,
            transient=not keep,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}
        self._started: dict[str, tuple[float, int]] = {}  # time and count at the first update

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()
        heartbeat.status = ""

    def update(
        self, task: str, completed: int, total: int | None = None, metrics: str = ""
    ) -> None:
        """Set the progress of a task, with its total if that is known."""
        count = f"{completed:,}" if total is None else f"{completed:,} of {total:,}"
        if task not in self._tasks:
            self._tasks[task] = self._bars.add_task(task, total=total, count=count, metrics="")
            self._started[task] = time.monotonic(), completed
        if total is not None:
            metrics += self._remaining(task, completed, total)
        heartbeat.status = f"{task} {count}  {metrics}".rstrip()
        self._bars.update(self._tasks[task], completed=completed, count=count, metrics=metrics)

    def _remaining(self, task: str, completed: int, total: int) -> str:
        """The estimated time left; empty before any progress."""
        start, first = self._started[task]
        if completed <= first:
            return ""
        seconds = (time.monotonic() - start) / (completed - first) * (total - completed)
        return f"  left {timedelta(seconds=round(seconds))}"


@contextmanager
def progress_counter() -> Iterator[Callable[[str, int], None]]:
    """Yield a function (task, completed) that displays a count."""
    with ProgressDisplay() as display:
        yield display.update


@contextmanager
def progress_with_rate(
    task: str, completed: int, total: int, unit: str
) -> Iterator[Callable[[int], None]]:
    """Yield a function (completed) that displays the progress towards a total, and the rate."""
    start, first = time.monotonic(), completed
    with ProgressDisplay() as display:
        display.update(task, completed, total, "starting")

        def show_rate(completed: int) -> None:
            rate = (completed - first) / max(time.monotonic() - start, 1e-9)
            display.update(task, completed, total, f"{rate:,.0f} {unit}/s")

        yield show_rate


class TrainingProgressBar(ProgressDisplay):
    """The progress bar of a training run; a `TrainingCallback`."""

    def __init__(self) -> None:
        super().__init__(keep=True)
        self._step, self._max_steps, self._metrics = 0, 0, "starting"
        self.advanced = False

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """The run starts, or is resumed, at this step."""
        if step < max_steps:
            notify(description)
        if step:
            notify(f"Resuming from step {step:,}.")
        self._max_steps = max_steps
        self._show(step)

    def on_step_end(self, step: int) -> None:
        """An update is finished."""
        self.advanced = True
        self._show(step)

    def _show(self, step: int) -> None:
        self._step = step
        self.update("step", step, self._max_steps, self._metrics)

    def on_log(self, row: dict[str, Any]) -> None:
        """Show training metrics in the bar, and print validation metrics."""
        if "valid_loss" in row:
            step = f"step {row['step']:>7,}  "
            notify(step + _format_validation(row))
            if "mean_valid_loss" in row:
                mean = {name.removeprefix("mean_"): row[name] for name in row if "mean_" in name}
                notify(f"{'':{len(step)}}average of the best: {_format_validation(mean)}")
            return
        self._metrics = (
            f"loss {row['loss']:.3f}  perplexity {row['perplexity']:.2f}  "
            f"{row['tokens_per_second']:,.0f} tokens/s"
        )
        self._show(self._step)


def _format_validation(row: dict[str, Any]) -> str:
    """The validation loss and the metrics of the task; without any, the perplexity.

    The metrics log also has the fields of each direction.
    """
    other_fields = ("step", "seconds", "valid_loss")
    hidden = ("valid_loss_", "bleu_")
    metrics = {
        name: row[name]
        for name in row
        if name not in other_fields and "mean_" not in name and not name.startswith(hidden)
    }
    formats = {
        "accuracy": lambda value: f"{100 * value:.2f} %",
        "bleu": lambda value: f"{value:.1f}",
    }
    formatted = [
        f"{'BLEU' if name == 'bleu' else name.replace('_', ' ')} "
        + formats.get(name, lambda value: f"{value:.3f}")(value)
        for name, value in metrics.items()
    ]
    loss = row["valid_loss"]
    perplexity = exp(loss) if loss < 700 else inf
    return "  ".join(
        [f"validation loss {loss:.3f}", *(formatted or [f"perplexity {perplexity:.2f}"])]
    )


class TuningProgressBar(ProgressDisplay):
    """The progress bar of a hyperparameter search: a line for each trial that ends."""

    def __init__(self, metric: str) -> None:
        super().__init__(keep=True)
        self._metric = metric

    def on_trial_end(self, trial: Any, is_best: bool) -> None:
        """Print a trial."""
        value = "" if trial.value is None else f"  {self._metric} {trial.value:.4g}"
        step = "" if trial.step is None else f" at step {trial.step:,}"
        settings = "  ".join(f"{name}={value}" for name, value in trial.settings.items())
        reason = f"\n{'':11}{trial.reason}" if trial.reason else ""
        mark = "  (best so far)" if is_best else ""
        notify(f"trial {trial.number:>4}  {trial.state}{value}{step}{mark}  {settings}{reason}")

    def on_progress(self, completed: int, total: int, steps: Mapping[int, str]) -> None:
        """Show the number of trials that have ended, and the steps of those in training."""
        training = "  ".join(f"trial {number}: {step}" for number, step in steps.items())
        self.update("trial", completed, total, training)

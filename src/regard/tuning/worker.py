"""The process of a trial: trains a run, and reports its validations to the tuner.

Each trial has a process of its own, so that nothing of a failed trial stays in memory. If the tuner
ends, its processes save a checkpoint and end, too.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from regard.config import build
from regard.errors import ConfigError, RegardError, RunError, StoppedError, StorageError
from regard.files import write_text
from regard.plugins import load_installed_plugins, load_plugin
from regard.settings_tree import format_toml, to_tree
from regard.tasks.recipes import validate_run_config
from regard.tracking.run import run_training
from regard.training.config import RunConfig
from regard.training.metrics_log import Row
from regard.tuning.channel import Channel, EndState, Message
from regard.tuning.metric import Metric

RECIPE = "recipe.toml"  # in the run folder of a trial
_MAX_REASON = 1000  # characters


class Reporter:
    """The training callback of a trial; a context manager that lasts as long as training."""

    def __init__(self, config: RunConfig, channel: Channel) -> None:
        self._config, self._channel = config, channel
        self._metric = Metric.of(config.training)
        self._answers: queue.Queue[Message] = queue.Queue()
        self._is_over = False
        threading.Thread(target=self._read_answers, daemon=True).start()

    def _read_answers(self) -> None:
        """Receive answers; stop training when the tuner has ended."""
        with suppress(OSError):
            while (messages := self._channel.receive()) is not None:
                for message in messages:
                    self._answers.put(message)
        self._answers.put({})
        if not self._is_over:
            os.kill(os.getpid(), signal.SIGTERM)

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over = True

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """Write the recipe into the run folder."""
        write_text(Path(self._config.out) / RECIPE, format_toml(to_tree(self._config)))
        print(description, file=sys.stderr, flush=True)
        self._send({"event": "start", "step": step, "max_steps": max_steps})

    def on_step_end(self, step: int) -> None:
        """Report nothing."""

    def on_log(self, row: Row) -> None:
        """Report a row; after a validation, wait for the answer whether to stop."""
        if "valid_loss" not in row:
            self._send({"event": "step", "step": row["step"]})
            return
        value = row.get(self._metric.field)
        self._send({"event": "validation", "step": row["step"], "value": value})
        if self._answers.get().get("stop"):
            signal.raise_signal(signal.SIGTERM)  # training saves a checkpoint and stops

    def _send(self, message: Message) -> None:
        with suppress(BrokenPipeError):  # then `_read_answers` stops training
            self._channel.send(message)


def run_trial(job: Message, channel: Channel) -> tuple[EndState, str | None]:
    """Train the run of a job; returns how it ended, and why it failed."""
    try:
        load_installed_plugins()
        for name in job["plugins"]:
            load_plugin(name)
        config = validate_run_config(build(RunConfig, job["settings"], source=None))
        with Reporter(config, channel) as reporter:
            run_training(config, job["device"], reporter, notice=_print)
    except StoppedError:
        return "stopped", None
    except RegardError as error:
        _print(str(error))
        if isinstance(error, ConfigError):
            return "refused", str(error)
        return ("error" if isinstance(error, StorageError | RunError) else "failed"), str(error)
    except Exception as error:  # such as PyTorch's for too little memory
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        return "failed", f"{type(error).__name__}: {first}".rstrip(": ")
    return "finished", None


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Train the trial that the tuner describes on standard input."""
    channel = Channel(0, os.dup(1))
    os.dup2(2, 1)  # what plugins print goes to the log
    messages = channel.receive()
    if messages is None:
        return
    state, reason = run_trial(messages[0], channel)
    with suppress(BrokenPipeError):
        text = None if reason is None else reason[:_MAX_REASON]
        channel.send({"event": "end", "state": state, "reason": text})


if __name__ == "__main__":
    main()

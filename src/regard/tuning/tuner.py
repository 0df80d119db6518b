"""The tuner: claims trials of a study, and trains each in a process of its own."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from regard.config import Tree, build
from regard.data.store import Store
from regard.devices import resolve_device
from regard.errors import ConfigError, RunError, StoppedError
from regard.files import write_text
from regard.machine import core_count
from regard.models.folder import WEIGHTS
from regard.plugins import plugin_names
from regard.settings_tree import format_toml, merge_trees, nest_names, to_tree
from regard.tasks import task_of
from regard.tasks.recipes import validate_run_config
from regard.training.config import RunConfig
from regard.training.loop import catch_signals
from regard.training.metrics_log import read_metrics
from regard.tuning.channel import Message
from regard.tuning.config import TuneConfig, parse_duration
from regard.tuning.metric import Metric
from regard.tuning.processes import WORKER, TrialProcess
from regard.tuning.result import BEST, State, TrialResult, TuningResult, rank_trials
from regard.tuning.space import Space
from regard.tuning.study import Claim, Study, make_pruner
from regard.tuning.study_folder import LOGS, make_identity

_POLL = 0.5  # seconds until signals and the time limit are checked
# Failures in a row at which a search ends: of training, and of settings that contradict each other.
_MAX_FAILURES, _MAX_REFUSALS = 5, 25


class TuneListener(Protocol):
    """Receives the events of a hyperparameter search, such as a progress bar."""

    def on_trial_end(self, trial: TrialResult, is_best: bool) -> None:
        """A trial is complete, pruned or failed."""

    def on_progress(self, completed: int, total: int, steps: Mapping[int, str]) -> None:
        """Trials have ended, or others are at these steps."""


def with_settings(base: RunConfig, settings: Mapping[str, Any]) -> RunConfig:
    """The settings of a run with changes by dotted name; raises an error if they contradict."""
    tree = merge_trees(to_tree(base), nest_names(settings))
    return validate_run_config(build(RunConfig, tree, source=None))


@dataclass
class _Running:
    """A trial in training."""

    claim: Claim
    metric: Metric
    slot: int
    max_steps: int = 0
    step: int = 0
    is_pruned: bool = False
    end: Message = field(default_factory=dict)  # the last message


class Tuner:
    """Trains the trials of a study on this machine."""

    def __init__(
        self,
        base: RunConfig,
        space: Space,
        config: TuneConfig,
        *,
        device: str,
        worker: Sequence[str] | None = None,
    ) -> None:
        """Open the study in the folder `base.out`; trials have the settings of `base` otherwise."""
        if config.metric is not None:
            base = with_settings(base, {"training.best_metric": config.metric.lower()})
        store = Store(Path(base.data.folder))
        task_of(base.model).new_folder(base.model, store)
        if not store.has("valid"):
            raise ConfigError(
                f"{store.folder} has no validation split, by which trials are compared. Prepare "
                "the data with --valid-source and --valid-target, --valid-text, --valid-tagged or "
                "--valid-labelled."
            )
        resolve_device(device)
        self._base, self._space, self._config = base, space, config
        self._out = Path(base.out)
        self._device, self._worker = device, worker or WORKER
        self._listener: TuneListener | None = None
        self.metric = Metric.of(base.training)
        training = base.training
        self._study = Study(
            self._out,
            space,
            make_identity(base, space, store.fingerprint, seed=config.seed, pruner=config.pruner),
            maximized=self.metric.maximized,
            pruner=make_pruner(
                config.pruner, first_step=training.checkpoint_every, last_step=training.max_steps
            ),
        )
        self._running: dict[TrialProcess, _Running] = {}
        self._selector = selectors.DefaultSelector()
        self._failures = self._refusals = 0  # in a row

    def result(self) -> TuningResult:
        """All trials so far."""
        return TuningResult(
            self._out,
            self.metric,
            self._space.tree,
            self._study.results(),
            self._study.importances(),
        )

    def run(self, listener: TuneListener | None = None) -> TuningResult:
        """Train until there are enough trials, the time limit or a signal."""
        self._listener = listener
        seconds = parse_duration(self._config.timeout) if self._config.timeout else None
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._selector, catch_signals() as signals:
            try:
                while not signals and (deadline is None or time.monotonic() < deadline):
                    self._start_trials()
                    if not self._running and not self._study.is_waiting:
                        break
                    self._handle_messages()
                self._stop_trials()
            except (KeyboardInterrupt, SystemExit):  # a second signal; checkpoints are on disk
                for process in self._running:
                    process.kill()
                raise
            finally:
                for process, running in self._running.items():  # after an error
                    process.stop()
                    process.close()
                    self._study.release(running.claim)
        if signals:
            raise StoppedError(
                f"Stopped; all trials are saved in {self._out}. Run the same command again to "
                "resume.",
                signal_number=signals[0],
            )
        result = self.result()
        if result.best is not None:
            self._write_recipe(result.best)
        return result

    def _start_trials(self) -> None:
        """Claim and start trials until as many run as wanted."""
        while len(self._running) < self._config.parallel:
            claim = self._study.claim(self._config.trials)
            if claim is None:
                break
            try:
                config = self._trial_config(claim)
            except ConfigError as error:
                self._fail(claim, str(error), is_refusal=True)
                continue
            slots = {running.slot for running in self._running.values()}
            slot = min({*range(self._config.parallel)} - slots)
            running = _Running(claim, Metric.of(config.training), slot)
            log = self._out / LOGS / f"{claim.folder.name}.log"
            job = {"settings": to_tree(config), "plugins": plugin_names()}
            job["device"] = self._device_of(slot)
            process = TrialProcess(job, log, self._environment(), self._worker)
            self._running[process] = running
            self._selector.register(process, selectors.EVENT_READ)
        self._report_progress()

    def _trial_config(self, claim: Claim) -> RunConfig:
        name = self._base.tracking.name
        changes: Tree = claim.settings | {"out": str(claim.folder)}
        if name is not None:
            changes["tracking.name"] = f"{name} {claim.folder.name}"
        return with_settings(self._base, changes)

    def _device_of(self, slot: int) -> str:
        """The device of a trial: GPUs in turn."""
        if self._config.parallel > 1 and self._device in ("auto", "cuda"):
            gpus = torch.cuda.device_count()
            return f"cuda:{slot % gpus}" if gpus else self._device
        return self._device

    def _environment(self) -> dict[str, str]:
        """Variables of a trial: the cores are divided among parallel ones."""
        variables = {"GOMP_SPINCOUNT": os.environ.get("GOMP_SPINCOUNT", "10000")}  # see cli.main
        if self._config.parallel > 1:
            variables["OMP_NUM_THREADS"] = str(max(1, core_count() // self._config.parallel))
        return variables

    def _handle_messages(self) -> None:
        """Wait for messages of processes, and handle them."""
        for key, _ in self._selector.select(_POLL):
            process: Any = key.fileobj
            messages = process.receive()
            if messages is None:
                self._selector.unregister(process)
                self._handle_end(process)
                continue
            for message in messages:
                self._handle(process, self._running[process], message)
        self._report_progress()

    def _handle(self, process: TrialProcess, running: _Running, message: Message) -> None:
        event = message["event"]
        running.step = message.get("step", running.step)
        if event == "start":
            running.max_steps = message["max_steps"]
        elif event == "validation":
            stop = self._study.report(running.claim, message["step"], message["value"])
            running.is_pruned |= stop
            process.send({"stop": stop})
        elif event == "end":
            running.end = message

    def _handle_end(self, process: TrialProcess) -> None:
        """Store how a trial ended; a stopped one is resumed later."""
        running, status = self._running.pop(process), process.close()
        claim, state, reason = running.claim, running.end.get("state"), running.end.get("reason")
        if state == "finished":
            self._complete(running)
        elif state == "stopped" and running.is_pruned:
            self._end(claim, "pruned", step=running.step, seconds=_seconds(claim.folder))
        elif state in ("failed", "refused"):
            self._fail(claim, str(reason), is_refusal=state == "refused")
        elif state is None and status != -signal.SIGTERM:
            what = f"was ended by {signal.Signals(-status).name}" if status < 0 else "failed"
            advice = ", perhaps for lack of memory" if status == -signal.SIGKILL else ""
            self._fail(claim, f"its process {what}{advice}; see {LOGS}/{claim.folder.name}.log")
        else:
            self._study.release(claim)
        if state == "error":
            raise RunError(f"Trial {claim.number} cannot be trained: {reason}")

    def _complete(self, running: _Running) -> None:
        claim = running.claim
        best = running.metric.best(read_metrics(claim.folder))
        if best is None:
            self._fail(claim, f"{self.metric.title} is not a number")
            return
        step, value = best
        self._end(claim, "complete", value=value, step=step, seconds=_seconds(claim.folder))

    def _fail(self, claim: Claim, reason: str, *, is_refusal: bool = False) -> None:
        """Store a failure; several in a row raise an error."""
        self._end(claim, "failed", reason=reason)
        if is_refusal:
            self._refusals += 1
        else:
            self._failures += 1
        if self._refusals >= _MAX_REFUSALS or self._failures >= _MAX_FAILURES:
            count = self._refusals if is_refusal else self._failures
            raise RunError(
                f"{count} trials in a row failed, the last because: {reason.rstrip('.')}. Correct "
                "the settings or the search space, and choose another --out."
            )

    def _end(self, claim: Claim, state: State, **values: Any) -> None:
        """Store the end of a trial, and keep the recipe and weights of the best ones."""
        trial = self._study.finish(claim, state, **values)
        if state != "failed":
            self._failures = self._refusals = 0
        results = self._study.results()
        ranking = rank_trials(results, self.metric)
        is_best = bool(ranking) and ranking[0].number == trial.number
        if is_best:
            self._write_recipe(trial)
        kept = {best.number for best in ranking[: self._config.keep]}
        for other in results:
            if other.state != "running" and other.number not in kept:
                _remove_weights(other.folder)
        if self._listener is not None:
            self._listener.on_trial_end(trial, is_best)

    def _write_recipe(self, trial: TrialResult) -> None:
        """Write the recipe of the best trial."""
        path = self._out / BEST
        config = with_settings(self._base, trial.settings | {"out": str(path.with_suffix(""))})
        comment = f"# Trial {trial.number}: {self.metric.title} {trial.value}"
        write_text(path, f"{comment}\n\n{format_toml(to_tree(config))}")

    def _stop_trials(self) -> None:
        """Ask all processes to save and end, and wait for them."""
        for process in self._running:
            process.stop()
        while self._running:
            self._handle_messages()

    def _report_progress(self) -> None:
        if self._listener is None:
            return
        ended = sum(trial.state != "running" for trial in self._study.results())
        steps = {
            running.claim.number: f"step {running.step:,} of {running.max_steps:,}"
            if running.max_steps
            else "starting"
            for running in self._running.values()
        }
        self._listener.on_progress(ended, self._config.trials, steps)


def _remove_weights(folder: Path) -> None:
    """Remove the weights and checkpoints of a run; settings and metrics stay."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    (folder / WEIGHTS).unlink(missing_ok=True)


def _seconds(folder: Path) -> float | None:
    """The time of training by the metrics log."""
    return next(
        (row["seconds"] for row in reversed(read_metrics(folder)) if "seconds" in row), None
    )

"""The study of a hyperparameter search: its trials in Optuna's journal.

Several processes, also of several machines with a shared folder, may work on a study. A process
locks each of its trials; a trial that runs and is not locked was interrupted, and is resumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from regard.config import Tree
from regard.errors import RegardError, RunError, StorageError
from regard.files import explain_os_errors, locked_folder, locked_output
from regard.training.run_folder import RUN
from regard.tuning.result import State, TrialResult
from regard.tuning.space import Space
from regard.tuning.study_folder import JOURNAL, TRIALS, locked_claims, open_study_folder

MIN_TRIALS_OF_IMPORTANCE = 10  # complete ones
_NAME = "regard"  # of the only study in the journal
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}
_OPTUNA_STATES = {state: key for key, state in _STATES.items()}


@dataclass(frozen=True)
class Claim:
    """A trial that this process trains; `lock` is held until it ends."""

    trial: Trial
    settings: Tree
    folder: Path
    lock: ExitStack

    @property
    def number(self) -> int:
        """The number of the trial."""
        return self.trial.number


class Study:
    """The trials of a hyperparameter search."""

    def __init__(
        self,
        out: Path,
        space: Space,
        identity: Tree,
        *,
        maximized: bool,
        pruner: optuna.pruners.BasePruner,
    ) -> None:
        """Open a study, or create it; `identity` is all that determines its trials."""
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._out, self._space, self._seed = out, space, identity["seed"]
        self._held: set[int] = set()
        self.is_waiting = False  # for the process of an interrupted trial to end
        with explain_os_errors(out), open_study_folder(out, identity), self._explained_damage():
            backend = JournalFileBackend(str(out / JOURNAL))  # JSON; it unpickles nothing
            self._study = optuna.create_study(
                storage=optuna.storages.JournalStorage(backend),
                study_name=_NAME,
                direction="maximize" if maximized else "minimize",
                pruner=pruner,
                load_if_exists=True,
            )
            for trial in self._trials():
                _check(trial)
                self._result(trial)

    @contextmanager
    def _explained_damage(self) -> Iterator[None]:
        """Convert the exceptions that Optuna raises for a damaged journal."""
        try:
            yield
        except (OSError, RegardError):
            raise
        except Exception as error:  # of any class
            reason = next(iter(str(error).splitlines()), "")[:100]
            raise RunError(
                f"{self._out / JOURNAL} is damaged ({type(error).__name__}: {reason}). Restore it "
                "from a backup, or choose another --out."
            ) from error

    def _trials(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _folder(self, number: int) -> Path:
        return self._out / TRIALS / f"{number:04d}"

    def results(self) -> list[TrialResult]:
        """All trials by number."""
        return [self._result(trial) for trial in self._trials()]

    def _result(self, trial: FrozenTrial) -> TrialResult:
        attributes: Mapping[str, Any] = trial.user_attrs
        return TrialResult(
            trial.number,
            _STATES[trial.state],
            trial.value if trial.state.is_finished() else None,
            attributes.get("step"),
            attributes.get("seconds"),
            self._space.settings(trial.params),
            self._folder(trial.number),
            attributes.get("reason"),
        )

    def claim(self, limit: int) -> Claim | None:
        """A trial to train: an interrupted one, or a new one if there are fewer than `limit`."""
        with locked_claims(self._out):
            self.is_waiting = False
            trials = self._trials()
            for trial in trials:
                if trial.state is TrialState.RUNNING and trial.number not in self._held:
                    lock = self._lock_interrupted(trial.number)
                    if lock is not None:
                        return self._hold(Trial(self._study, trial._trial_id), lock)
            if len(trials) >= limit:
                return None
            new = self._study.ask()
            lock = ExitStack()
            lock.enter_context(locked_output(self._folder(new.number)))
            return self._hold(new, lock)

    def _lock_interrupted(self, number: int) -> ExitStack | None:
        """Lock a trial of a process that has ended; None if it has not."""
        folder, lock = self._folder(number), ExitStack()
        try:
            lock.enter_context(locked_output(folder))
        except StorageError:  # another process tunes it
            return None
        try:
            if (folder / RUN).is_file():
                with locked_folder(folder):
                    return lock
        except RunError:  # the process that trained it is still saving
            self.is_waiting = True
            lock.close()
            return None
        return lock

    def _hold(self, trial: Trial, lock: ExitStack) -> Claim:
        """Sample the settings of a trial; they depend on the seed, its number and other trials."""
        [seed] = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)
        self._study.sampler = optuna.samplers.TPESampler(seed=int(seed))
        self._space.suggest(trial)
        self._held.add(trial.number)
        settings = self._space.settings(trial.params)
        return Claim(trial, settings, self._folder(trial.number), lock)

    def report(self, claim: Claim, step: int, value: float | None) -> bool:
        """Store a validation metric of a trial; returns whether the trial is to be pruned."""
        known = self._trials()[claim.number].intermediate_values
        if step not in known:  # a resumed run repeats the validations since its last checkpoint
            claim.trial.report(math.nan if value is None else value, step)
        return bool(claim.trial.should_prune())  # NumPy's with some pruners

    def finish(
        self, claim: Claim, state: State, *, value: float | None = None, **attributes: Any
    ) -> TrialResult:
        """Store the end of a trial: its value if it is complete, and step, seconds or reason."""
        for name, attribute in attributes.items():
            claim.trial.set_user_attr(name, attribute)
        frozen = self._study.tell(claim.number, value, _OPTUNA_STATES[state])
        self.release(claim)
        return self._result(frozen)

    def release(self, claim: Claim) -> None:
        """Unlock a trial; one that has not ended is resumed later."""
        self._held.discard(claim.number)
        claim.lock.close()

    def importances(self) -> dict[str, float]:
        """The importance of each setting by PED-ANOVA, largest first; empty for few trials."""
        complete = [trial for trial in self._trials() if trial.state is TrialState.COMPLETE]
        if len(complete) < MIN_TRIALS_OF_IMPORTANCE:
            return {}
        quantile = max(0.1, 5 / len(complete))  # at least five trials count as good
        evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)
        return optuna.importance.get_param_importances(self._study, evaluator=evaluator)


def make_pruner(name: str, *, first_step: int, last_step: int) -> optuna.pruners.BasePruner:
    """A pruner for runs with validations from `first_step` to `last_step`."""
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=last_step // 5)
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min(first_step, last_step), last_step)
    return optuna.pruners.NopPruner()


def _check(trial: FrozenTrial) -> None:
    """Raise an exception for values of a wrong type."""
    numbers = [*trial.intermediate_values, *trial.intermediate_values.values()]
    numbers += trial.values or []
    attributes = trial.user_attrs
    numbers += [attributes[name] for name in ("step", "seconds") if name in attributes]
    wrong = [number for number in numbers if not isinstance(number, int | float)]
    if wrong or not isinstance(attributes.get("reason", ""), str):
        raise ValueError(f"trial {trial.number} has a value of a wrong type")

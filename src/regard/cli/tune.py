"""regard tune: searches for the best settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields
from regard.cli.options import Assignments, DeviceOnly, argument
from regard.cli.results import OutputOptions
from regard.cli.tables import print_table, table
from regard.cli.train import RunOptions
from regard.errors import RunError
from regard.progress import notify
from regard.tuning.config import TuneConfig

if TYPE_CHECKING:
    from regard.tuning.result import TrialResult, TuningResult


def tune(
    context: typer.Context,
    run: Annotated[RunOptions, Fields(without=("out",))],
    config: TuneConfig,
    runtime: DeviceOnly,
    output: OutputOptions,
    space: Annotated[
        Path,
        typer.Option(
            help="TOML file with the settings to tune and their values; see recipes/spaces/.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder of the search and of its trials.", show_default=False)
    ],
    recipe: Annotated[Path | None, argument("Path of a recipe, a TOML file; see recipes/.")] = None,
    assignments: Assignments = None,
) -> None:
    """Search for the best settings of a run with Optuna.

    Running the same command again resumes a stopped search, and prints the trials of a finished
    one. On several machines with a shared folder, it joins the search.
    """
    from regard import plots
    from regard.api import run_tuning
    from regard.tasks.recipes import build_run_config

    changes = {**run.changes(), "out": str(out)}
    base = build_run_config(
        recipe, preset=run.preset, changes=changes, assignments=assignments or []
    )
    output.reserve(context, recipe, space)
    result = run_tuning(base, space, config, runtime.device, show_progress=True)
    complete = [trial for trial in result.trials if trial.state == "complete"]

    def draw(path: Path) -> bool:
        return plots.plot_trials(
            path,
            {trial.number: trial.value or 0.0 for trial in complete},
            {name: [trial.settings[name] for trial in complete] for name in result.space},
            metric=result.metric.title,
            maximized=result.metric.maximized,
            logarithmic=[name for name, value in result.space.items() if _is_logarithmic(value)],
        )

    if not complete:
        raise RunError(f"No trial is complete. The processes of the trials write to {out}/logs.")
    output.print_results(
        context,
        [_to_row(trial) for trial in result.trials],
        draw,
        text=lambda: _print_trials(result),
        best=None if result.best is None else result.best.number,
        importances=result.importances,
    )
    _notify_next(result)


def _is_logarithmic(distribution: Any) -> bool:
    return isinstance(distribution, Mapping) and distribution.get("log") is True


def _to_row(trial: TrialResult) -> dict[str, Any]:
    """A row of the JSON output."""
    return {**asdict(trial), "folder": str(trial.folder)}


def _print_trials(result: TuningResult) -> None:
    """Print a row for each trial, the best ones first, and the importance of settings."""
    rest = [trial for trial in result.trials if trial.state != "complete"]
    rest.sort(key=lambda trial: (trial.state, trial.number))
    rows = [
        [
            trial.number,
            trial.state,
            "" if trial.value is None else f"{trial.value:.4g}",
            "" if trial.step is None else f"{trial.step:,}",
            *(str(trial.settings.get(name, "")) for name in result.space),
        ]
        for trial in [*result.ranking, *rest]
    ]
    columns = ["trial", "state", result.metric.title, "step", *result.space]
    print_table(table("", columns, rows))
    if result.importances:
        importances = [[name, value] for name, value in result.importances.items()]
        print()
        print_table(table("", ["setting", "importance"], importances))


def _notify_next(result: TuningResult) -> None:
    """Print what is unfinished, and commands for the best trial."""
    running = sum(trial.state == "running" for trial in result.trials)
    if running:
        notify(
            f"Unfinished: {running}. They are saved, or trained by another process; run the same "
            "command again to resume."
        )
    if result.best is not None:
        folder = result.best.folder
        notify(
            f"The best model is in {folder}. To train it again: regard train {result.recipe}, "
            f"which writes {result.recipe.with_suffix('')}."
        )

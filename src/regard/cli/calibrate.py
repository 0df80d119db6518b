"""regard calibrate: calibrates the confidences of models on validation data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Fields, given_settings
from regard.cli.options import Models, argument
from regard.cli.outputs import reserve_outputs
from regard.cli.results import OutputOptions
from regard.cli.tables import print_table, table
from regard.data.calibration import BINS, CalibrationCurve
from regard.data.line_reader import read_parallel
from regard.decoding.config import SearchConfig
from regard.decoding.runtime import Runtime
from regard.decoding.text_config import DirectionConfig
from regard.errors import ConfigError
from regard.progress import notify

if TYPE_CHECKING:
    from regard.data.calibration import CalibratedLevel, Calibration

_WIDTH = 40  # of bars, in characters


def calibrate(
    context: typer.Context,
    models: Models,
    search: Annotated[SearchConfig, Fields(only=("beam_size", "length_penalty", "patience"))],
    direction: DirectionConfig,
    runtime: Runtime,
    output: OutputOptions,
    source: Annotated[
        Path, typer.Option(help="Source text of the validation data.", show_default=False)
    ],
    reference: Annotated[Path, typer.Option(help="Reference translations.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write; default: calibration.json in the model folder. Required for an "
            "ensemble.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Calibrate the confidences of a model or an ensemble on validation data."""
    from regard.data.calibration import CALIBRATION
    from regard.evaluation.calibration import calibrate
    from regard.machine import keep_freed_memory
    from regard.pipelines.translator import Translator

    if out is None and len(models) > 1:
        raise ConfigError(
            "The calibration of an ensemble belongs to none of the model folders. Use --out with "
            "the file to write."
        )
    path = out or models[0] / CALIBRATION
    outputs = {"--out" if out else "MODEL": path, "--picture": output.picture}
    reserve_outputs(context, outputs, inputs=[source, reference], overwrite=output.overwrite)
    sources, references = read_parallel(source, reference)
    keep_freed_memory()
    translator = Translator.load(*models, **runtime.loading)
    notify(translator.backend_notice)
    settings: Any = given_settings(context, SearchConfig)
    calibration = calibrate(
        translator,
        sources,
        references,
        batch_size=runtime.batch_size,
        notice=notify,
        direction=direction,
        **settings,
    )
    calibration.write(path)
    print_calibration(context, calibration, output)
    notify(f"Wrote {path}")


def calibration(
    context: typer.Context,
    folder: Annotated[
        Path, argument("Path of a model folder, or of a file of `regard calibrate --out`.", "MODEL")
    ],
    output: OutputOptions,
) -> None:
    """Plot the calibration curves of a model that `regard calibrate` has calibrated."""
    from regard.data.calibration import CALIBRATION, read_calibration, read_calibration_file

    output.reserve(context, folder)
    result = read_calibration_file(folder) if folder.is_file() else read_calibration(folder)
    if result is None:
        raise ConfigError(
            f"{folder} has no {CALIBRATION}. Write it with `regard calibrate {folder} --source "
            "val.src --reference val.trg`."
        )
    print_calibration(context, result, output)


def print_calibration(
    context: typer.Context, calibration: Calibration, output: OutputOptions
) -> None:
    """Print the errors before and after calibration, and plot the calibration curves."""
    from regard import plots

    levels = calibration.levels
    curves = {level.name: level.curves for level in levels}
    output.print_results(
        context,
        [_to_row(level) for level in levels],
        lambda path: plots.plot_calibration(path, curves),
        text=lambda: _print_errors(levels),
        sketch=lambda: _print_curves(levels),
    )


def _to_row(level: CalibratedLevel) -> dict[str, Any]:
    """A row of the JSON output."""
    curves = {"before": level.curves.before, "after": level.curves.after}
    return {
        "level": level.name,
        "count": sum(level.curves.after.counts),
        "temperature": level.temperature,
        "bias": level.bias,
        "ece": {name: curve.ece for name, curve in curves.items()},
        "nll": {name: curve.nll for name, curve in curves.items()},
        "curves": {
            name: {
                "counts": curve.counts,
                "confidence": curve.confidence,
                "accuracy": curve.accuracy,
            }
            for name, curve in curves.items()
        },
    }


def _print_errors(levels: Sequence[CalibratedLevel]) -> None:
    """Print a row of errors for each level."""
    columns = ["", "count", "ECE before", "ECE after", "NLL before", "NLL after"]
    rows = []
    for name, curves, temperature, bias in levels:
        before, after = curves.before, curves.after
        numbers = [before.ece, after.ece, before.nll, after.nll]
        fitted = ["" if value is None else f"{value:.3f}" for value in (temperature, bias)]
        rows.append([name, sum(after.counts), *(f"{number:.4f}" for number in numbers), *fitted])
    print_table(table("", [*columns, "temperature", "bias"], rows))


def _print_curves(levels: Sequence[CalibratedLevel]) -> None:
    """Print the calibration curve of each level as text."""
    for level in levels:
        print(f"\nAccuracy of {level.name} by confidence, after calibration")
        for line in text_curve(level.curves.after):
            print(line)


def text_curve(curve: CalibrationCurve) -> Iterator[str]:
    """A line for each bin: its bounds, count, accuracy as a bar, and a mark at its confidence."""
    bins = zip(curve.counts, curve.confidence, curve.accuracy, strict=True)
    for number, (count, confidence, accuracy) in enumerate(bins):
        bounds = f"{number / BINS:.1f}-{(number + 1) / BINS:.1f} {count:>9,}"
        if not count:
            yield bounds
            continue
        bar = [*("█" * round(_WIDTH * accuracy)).ljust(_WIDTH + 1)]
        bar[round(_WIDTH * confidence)] = "|"
        yield f"{bounds}  {accuracy:.3f} {''.join(bar).rstrip()}"

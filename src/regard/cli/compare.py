"""regard compare: compares trained models, or the cost of layer types by sequence length."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields, refuse_options
from regard.cli.evaluate import print_by_length
from regard.cli.options import argument, number_option
from regard.cli.results import OutputOptions
from regard.cli.tables import print_table, table
from regard.config import Doc, Flag, Settings
from regard.data.line_reader import read_parallel
from regard.decoding.config import SearchConfig
from regard.decoding.runtime import Runtime
from regard.errors import ConfigError, DataError
from regard.progress import notify

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.evaluation.layer_cost import LayerCost, LayerSizes
    from regard.evaluation.model_comparison import ComparedModel, ComparisonResult, TestSetup
    from regard.training.metrics_log import TrainingCost

_MAX_DIGITS = 6  # of a length
_MEMORY = {
    "cuda": "Memory: peak of PyTorch's allocator in a pass, without weights and input.",
    "cpu": "Memory: activations stored for the backward pass, without weights and input.",
}
_LEGEND = (
    "Computed for one sentence: multiply-adds; sequential operations; maximum path length, the "
    "layers or steps\nbetween the first and last token (convolutions: dilated). Measured for the "
    "batch: time and memory, median of the rounds."
)


@dataclass(frozen=True)
class ModelsOptions(Settings):
    """Comparison of trained models."""

    source: Annotated[Path | None, Doc("source text file")] = None
    reference: Annotated[Path | None, Doc("reference translations")] = None
    lowercase: Annotated[bool, Doc("case-insensitive BLEU")] = False
    batch_size: Annotated[
        int, Doc("sentences per batch when measuring throughput"), Ge(2), Le(10_000)
    ] = 100
    latency_sentences: Annotated[
        int,
        Doc("sentences that are also translated with batch size 1, to measure latency"),
        Ge(1),
        Le(1_000_000),
        Flag(formerly=("--one-by-one",)),
    ] = 100
    gradients: Annotated[
        int,
        Doc(
            "sentences over which gradient norms at the first source token are averaged; 0 "
            "disables this; only for autoregressive encoder-decoders"
        ),
        Ge(0),
        Le(100_000),
    ] = 0
    backend: Annotated[
        str,
        Doc(
            "inference backend: torch, which supports every model kind, ctranslate2, or auto as in "
            "`regard translate`"
        ),
        Flag(formerly=("--engine",)),
    ] = "torch"


@dataclass(frozen=True)
class LayersOptions(Settings):
    """Comparison of layer types."""

    d_model: Annotated[int, Doc("hidden size"), Ge(1), Le(10_000), Flag(formerly=("--width",))] = (
        256
    )
    num_heads: Annotated[
        int, Doc("attention heads"), Ge(1), Le(1000), Flag(formerly=("--heads",))
    ] = 4
    kernel_size: Annotated[
        int, Doc("kernel size of the convolution"), Ge(1), Le(999), Flag(formerly=("--kernel",))
    ] = 3
    layer_batch_size: Annotated[
        int, Doc("sentences per batch"), Ge(1), Le(10_000), Flag(formerly=("--batch",))
    ] = 4
    lengths: Annotated[str, Doc("sequence lengths in tokens, separated by commas")] = (
        "16,32,64,128,256,512,1024,2048,4096"
    )
    max_seconds: Annotated[
        float,
        Doc("skip forward and backward passes that would take more seconds than this"),
        Ge(0),
        Le(86_400),
        Flag(formerly=("--seconds",)),
    ] = 5.0


def compare(
    context: typer.Context,
    search: Annotated[SearchConfig, Fields(only=("beam_size",), panel="Models")],
    test: ModelsOptions,
    layers: LayersOptions,
    runtime: Annotated[Runtime, Fields(only=("precision", "device"))],
    output: OutputOptions,
    models: Annotated[
        list[Path] | None,
        argument("Paths of model or run folders; default: compare layer types.", "MODEL"),
    ] = None,
    rounds: Annotated[
        int, number_option("Repetitions of each measurement; the median is reported", 1, 10_000)
    ] = 3,
) -> None:
    """Compare BLEU, size, training cost and speed of models, or the cost of layer types.

    Without models, the computed and measured cost of self-attention, recurrent and convolutional
    layers is printed by sequence length.
    """
    from regard.machine import keep_freed_memory

    if models:
        names = {field.name for field in fields(LayersOptions)}
        refuse_options(context, names, "no effect on models. Leave it out.")
    else:
        names = {"beam_size", *(field.name for field in fields(ModelsOptions))}
        refuse_options(
            context, names, "no effect without models. Give model folders, or leave it out."
        )
    output.reserve(context, *(models or []), test.source, test.reference)
    keep_freed_memory()
    if models:
        _compare_models(context, models, test, search.beam_size, runtime, rounds, output)
    else:
        _compare_layers(context, layers, runtime, rounds, output)


def _layer_sizes(layers: LayersOptions, precision: str | None) -> LayerSizes:
    from regard.devices import Precision
    from regard.evaluation.layer_cost import LayerSizes

    for known in get_args(Precision):
        if known == (precision or "auto"):
            return LayerSizes(
                layers.d_model, layers.num_heads, layers.kernel_size, layers.layer_batch_size, known
            )
    raise ConfigError(
        f"--precision is {precision!r}, but must be float32 or bfloat16 to compare layer types."
    )


def _parse_lengths(text: str) -> list[int]:
    numbers = [number.strip() for number in text.split(",")]
    if not all(
        number.isdecimal() and len(number) <= _MAX_DIGITS and int(number) for number in numbers
    ):
        raise ConfigError(
            f"--lengths is {text[:80]!r}, but must be integers below a million, separated by "
            "commas, such as 16,256,4096."
        )
    return sorted({int(number) for number in numbers})


def _compare_layers(
    context: typer.Context,
    layers: LayersOptions,
    runtime: Runtime,
    rounds: int,
    output: OutputOptions,
) -> None:
    from regard.devices import resolve_device
    from regard.evaluation.layer_cost import measure_layers

    sizes, lengths = _layer_sizes(layers, runtime.precision), _parse_lengths(layers.lengths)
    device = resolve_device(runtime.device)
    notify(sizes.describe(device))
    costs = []
    for points in measure_layers(sizes, lengths, device, rounds=rounds, seconds=layers.max_seconds):
        notify(f"Measured length {points[0].length:,}.")
        costs += points
    text = partial(_print_layers, costs, device.type)
    output.print_results(context, costs, partial(_plot_layers, costs), text=text)


def _print_layers(points: Sequence[LayerCost], device: str) -> None:
    """Print the table and its legend."""
    columns = ["length", "layer", "multiply-adds", "sequential", "path"]
    columns += ["forward, ms", "backward, ms", "memory, MB"]
    rows = [
        [
            *(p.length, p.layer, p.operations, p.steps, p.path),
            *((p.missing, "", "") if p.missing else (p.forward, p.backward, p.memory)),
        ]
        for p in points
    ]
    print_table(table("", columns, rows))
    print(f"\n{_LEGEND} {_MEMORY[device]}")


def _plot_layers(points: Sequence[LayerCost], path: Path) -> bool:
    """Plot operations, time and memory against the length, on logarithmic scales."""
    from regard import plots

    lengths = sorted({point.length for point in points})
    layers = dict.fromkeys(point.layer for point in points)

    def panel(title: str, attribute: str) -> plots.Panel:
        lines = {
            layer: [getattr(p, attribute) for p in points if p.layer == layer] for layer in layers
        }
        positions = [math.log2(length) for length in lengths]
        return plots.Panel(
            title, "length", positions, lines, [*map(str, lengths)], logarithmic=True
        )

    panels = [panel("multiply-adds of a sentence", "operations")]
    panels += [panel("forward, ms", "forward"), panel("backward, ms", "backward")]
    return plots.plot_line_panels(path, [*panels, panel("memory, MB", "memory")])


def _build_test_setup(options: ModelsOptions, beam_size: int) -> TestSetup:
    from regard.evaluation.metrics import MetricConfig
    from regard.evaluation.model_comparison import TestSetup

    if options.source is None or options.reference is None:
        raise ConfigError("Comparing models requires a test set. Use --source and --reference.")
    sources, references = read_parallel(options.source, options.reference)
    if not references:
        raise DataError(f"{options.reference} is empty. Check the path.")
    metric_config = MetricConfig(options.lowercase)
    return TestSetup(
        sources, references, metric_config, beam_size, options.batch_size, options.latency_sentences
    )


def _load_models(folders: Sequence[Path], backend: str, runtime: Runtime) -> list[ComparedModel]:
    """Load all models before the first is evaluated, so that errors are reported at once."""
    from regard.evaluation.model_comparison import ComparedModel
    from regard.foreign_models import refuse_exported
    from regard.pipelines.translator import Translator

    for path in folders:
        refuse_exported(path)  # parameters and gradients are needed
    models = []
    for folder in folders:
        translator = Translator.load(
            folder, device=runtime.device, backend=backend, precision=runtime.precision
        )
        notify(f"{folder}: {translator.backend_notice}")
        models.append(ComparedModel(str(folder), translator))
    return models


def _compare_models(
    context: typer.Context,
    folders: Sequence[Path],
    options: ModelsOptions,
    beam_size: int,
    runtime: Runtime,
    rounds: int,
    output: OutputOptions,
) -> None:
    from regard.evaluation.metrics import case_hint
    from regard.evaluation.model_comparison import compare as compare_models
    from regard.training.metrics_log import training_cost

    test = _build_test_setup(options, beam_size)
    models = _load_models(folders, options.backend, runtime)
    results = compare_models(models, test, rounds=rounds, gradients=options.gradients)
    for model in results:
        if model.quality.case_is_lost:
            notify(case_hint(model.name))
    costs = [*map(training_cost, folders)]  # None where a folder has no metrics.jsonl
    rows = [
        {**asdict(model), "batch_size": test.batch_size, "training": run and asdict(run)}
        for model, run in zip(results, costs, strict=True)
    ]
    text = partial(_print_models, results, costs, test.batch_size)
    output.print_results(context, rows, partial(_plot_models, results, test.batch_size), text=text)


def _print_models(
    models: Sequence[ComparisonResult], costs: Sequence[TrainingCost | None], batch_size: int
) -> None:
    """Print a table of all metrics, BLEU by length, and gradient norms."""
    columns = ["model", "kind", "BLEU", "parameters", "training, s", "target tokens/s"]
    columns += ["sentences/s, batch size 1", f"batch size {batch_size}"]
    rows = [
        [
            *(m.name, m.kind, m.quality.bleu, m.parameters),
            *((f"{cost.seconds:,.0f}", f"{cost.tokens_per_second:,.0f}") if cost else ("", "")),
            *(m.speed.one_by_one, m.speed.in_batches),
        ]
        for m, cost in zip(models, costs, strict=True)
    ]
    print_table(table("", columns, rows))
    print(f"\n{models[0].quality.signature}\n")
    print_by_length([m.name for m in models], [m.quality.by_length for m in models])
    for when, norms in _gradient_norms(models).items():
        positions = enumerate(zip(*norms.values(), strict=False), 1)  # up to the shortest
        table_rows = [[str(position), *(f"{x:.2g}" for x in row)] for position, row in positions]
        print(f"\nGradient norm at the first source token, {when} training,")
        print_table(table("", ["from target position", *norms], table_rows))


def _gradient_norms(models: Sequence[ComparisonResult]) -> dict[str, dict[str, list[float]]]:
    """Norms by target position before and after training, of models that have them."""
    known = {model.name: asdict(model.reach) for model in models if model.reach}
    times = ("before", "after") if known else ()
    return {when: {name: reach[when] for name, reach in known.items()} for when in times}


def _plot_models(models: Sequence[ComparisonResult], batch_size: int, path: Path) -> bool:
    """Plot BLEU by length, throughput, and gradient norms."""
    from regard import plots

    groups = models[0].quality.by_length
    panels = [
        plots.Panel(
            "BLEU by length",
            "reference length in words",
            range(len(groups)),
            {m.name: [group.bleu for group in m.quality.by_length] for m in models},
            [group.words for group in groups],
        ),
        plots.Panel(
            "sentences per second",
            "",
            range(2),
            {m.name: [m.speed.one_by_one, m.speed.in_batches] for m in models},
            ["batch size 1", f"batch size {batch_size}"],
            logarithmic=True,
        ),
    ]
    for when, norms in _gradient_norms(models).items():
        positions = range(1, min(map(len, norms.values())) + 1)
        lines = {name: values[: len(positions)] for name, values in norms.items()}
        title = f"gradient norm at the first source token, {when} training"
        panels.append(plots.Panel(title, "target position", positions, lines, logarithmic=True))
    return plots.plot_line_panels(path, panels)

"""regard show: plots of positions, masks, scores, schedules, attention and models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.bounds import SEED, Ge, Le
from regard.cli.app import App
from regard.cli.calibrate import calibration
from regard.cli.command import check_bounds, refuse_options
from regard.cli.options import Assignments, number_option
from regard.cli.results import OutputOptions
from regard.cli.show_model import attention, fertilities, model, settings
from regard.cli.tables import print_table, table
from regard.config import Doc, Flag, Settings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

_MASKS = ("causal", "padding", "prefix", "permutation", "segments", "window")
_SIZE = Ge(0), Le(1000)


def build_app() -> App:
    """Build the group of subcommands."""
    app = App(
        help="Plot position encodings, masks, schedules and attention; print models and settings.",
        no_args_is_help=True,
    )
    for command in (
        *(positions, mask, scores, schedule, attention, fertilities, calibration, model, settings),
    ):
        app.command(command.__name__)(command)
    return app


@dataclass(frozen=True)
class PositionOptions(Settings):
    """Position encodings."""

    length: Annotated[int, Doc("number of positions"), Ge(1), Le(1000)] = 50
    d_model: Annotated[
        int, Doc("dimensions of the encoding"), Ge(1), Le(1000), Flag(formerly=("--width",))
    ] = 64
    layout: Annotated[Literal["interleaved", "halves"], Doc("order of sines and cosines")] = (
        "interleaved"
    )
    dimension: Annotated[
        tuple[int, ...], Doc("plot this dimension as a curve; may be repeated"), Ge(0), Le(999)
    ] = ()


def positions(context: typer.Context, options: PositionOptions, output: OutputOptions) -> None:
    """Plot sinusoidal position encodings as a heat map, or some dimensions as curves."""
    from regard.attention.positions import sinusoids

    output.reserve(context)
    encodings = sinusoids(options.length, options.d_model, options.layout).numpy()
    for number in options.dimension:
        if not 0 <= number < options.d_model:
            last = options.d_model - 1
            raise ConfigError(f"--dimension is {number}, but dimensions range from 0 to {last}.")
    title = "sinusoidal positions"
    if options.dimension:
        lines = {
            f"dimension {number}": encodings[:, number].tolist() for number in options.dimension
        }
        draw_curves(context, output, lines, title=title, axes=("position", "value"))
    else:
        draw_map(context, output, encodings, title=title, axes=("position", "dimension"))


@dataclass(frozen=True)
class MaskOptions(Settings):
    """Sizes of masks; the doc of an option begins with its mask."""

    length: Annotated[int, Doc("sequence length"), Ge(1), Le(1000)] = 12
    valid_length: Annotated[
        int, Doc("padding: tokens before the padding"), *_SIZE, Flag(formerly=("--real",))
    ] = 8
    prefix_length: Annotated[
        int,
        Doc("prefix: tokens with bidirectional attention"),
        *_SIZE,
        Flag(formerly=("--prefix",)),
    ] = 5
    window: Annotated[
        int, Doc("window: maximum distance of query and key"), *_SIZE, Flag(formerly=("--width",))
    ] = 2
    segment_length: Annotated[
        int, Doc("segments: tokens per segment"), Ge(1), Le(1000), Flag(formerly=("--segment",))
    ] = 4
    seed: Annotated[int, Doc("permutation: random seed of the order"), Ge(0), SEED] = 1
    content_stream: Annotated[
        bool,
        Doc("permutation: mask of the content stream, or of the query stream, as in XLNet"),
        Flag("--content-stream/--query-stream", ("--itself=true", "--no-itself=false")),
    ] = True
    memory_length: Annotated[
        int, Doc("causal: cached tokens before the segment"), *_SIZE, Flag(formerly=("--memory",))
    ] = 0


_MASK_OF_OPTION = {
    "memory_length": "causal",
    "valid_length": "padding",
    "prefix_length": "prefix",
    "seed": "permutation",
    "content_stream": "permutation",
    "segment_length": "segments",
    "window": "window",
}


def mask(
    context: typer.Context,
    options: MaskOptions,
    output: OutputOptions,
    kind: Annotated[str, typer.Argument(help=f"Mask: {', '.join(_MASKS)}.")] = "causal",
) -> None:
    """Plot an attention mask: rows are queries, columns keys; filled cells may be attended to."""
    output.reserve(context)
    if kind not in _MASKS:
        raise ConfigError(f"Unknown mask {kind!r}. Use one of {', '.join(_MASKS)}.")
    others = {name for name, mask in _MASK_OF_OPTION.items() if mask != kind}
    refuse_options(context, others, f"no effect on the {kind} mask. Leave it out.")
    allowed = _build_mask(kind, options).float().numpy()
    draw_map(context, output, allowed, title=f"{kind} mask", axes=("query", "key"))


def _build_mask(kind: str, options: MaskOptions) -> Tensor:
    """The mask (queries, keys), True where a query may attend to a key."""
    import torch

    from regard.attention import masks

    length = options.length

    def permutation() -> Tensor:
        generator = torch.Generator().manual_seed(options.seed)
        order = torch.randperm(length, generator=generator)
        return masks.permutation(order.argsort(), itself=options.content_stream)[0]

    segments = torch.arange(length)[None] // options.segment_length
    prefix, valid = torch.tensor([options.prefix_length]), torch.tensor([options.valid_length])
    builders: dict[str, Callable[[], Tensor]] = {
        "causal": lambda: masks.causal(length, options.memory_length + length),
        "padding": lambda: masks.padding(valid, length)[0, 0].expand(length, -1),
        "prefix": lambda: masks.prefix(prefix, length)[0, 0],
        "permutation": permutation,
        "segments": lambda: masks.segments(segments, segments)[0, 0],
        "window": lambda: masks.window(length, length, options.window),
    }
    return builders[kind]()


def scores(
    context: typer.Context,
    output: OutputOptions,
    widths: Annotated[
        list[int] | None,
        typer.Argument(
            help="Sizes of queries and keys; default: 4 64 1024.",
            callback=check_bounds(Ge(1), Le(100_000)),
        ),
    ] = None,
    keys: Annotated[int, number_option("Number of keys per query", 2, 100_000)] = 32,
) -> None:
    """Plot attention weights of random queries and keys, with and without scaling by sqrt(d)."""
    from regard import plots
    from regard.attention.saturation import measure_saturation

    output.reserve(context)
    sizes = widths or [4, 64, 1024]
    results = [result for width in sizes for result in measure_saturation(width, keys=keys)]
    columns = ["d", "score", "std of scores", "largest weight", "gradient"]
    rows = [
        (r.width, r.score, *(f"{x:.3f}" for x in (r.spread, r.largest, r.gradient)))
        for r in results
    ]
    names = ("dot", "scaled dot")
    bars = {name: [r.largest for r in results if r.score == name] for name in names}
    labels = [f"d = {width}" for width in sizes]
    title = "largest attention weight of a query"
    output.print_results(
        context,
        results,
        lambda path: plots.plot_bars(path, bars, labels=labels, title=title, y="largest weight"),
        text=lambda: print_table(table("", columns, rows)),
    )


def schedule(
    context: typer.Context,
    output: OutputOptions,
    recipe: Annotated[Path | None, typer.Argument(help="Path of a recipe, a TOML file.")] = None,
    preset: Annotated[
        str | None,
        typer.Option(help="Preset: tiny, small, base, big, recurrent, convolutional or ctc."),
    ] = None,
    assignments: Assignments = None,
) -> None:
    """Plot the learning-rate schedule of a run."""
    from regard.tasks.recipes import build_run_config
    from regard.training.optimizer import learning_rate

    output.reserve(context, recipe)
    changes = {} if recipe else {"out": "nowhere"}
    config = build_run_config(recipe, preset=preset, changes=changes, assignments=assignments or [])
    steps = range(1, config.training.max_steps + 1)
    rates = [learning_rate(step, config.training, config.model.d_model) for step in steps]
    title = "learning rate"
    draw_curves(context, output, {"rate": rates}, title=title, axes=("step", "learning rate"))


def draw_map(
    context: typer.Context, output: OutputOptions, values: Any, *, title: str, axes: tuple[str, str]
) -> None:
    """Plot a matrix as a heat map; `axes` names its rows and columns."""
    from regard import plots

    names = {"title": title, "rows": axes[0], "columns": axes[1]}
    output.print_results(
        context,
        [{**names, "values": values.tolist()}],
        lambda path: plots.plot_heat_map(path, values, **names),
        sketch=lambda: print(plots.text_heat_map(values)),
    )


def draw_curves(
    context: typer.Context,
    output: OutputOptions,
    lines: Mapping[str, Sequence[float]],
    *,
    title: str,
    axes: tuple[str, str],
) -> None:
    """Plot lines in one picture, or as text plots; `axes` are the labels (x, y)."""
    from regard import plots

    x, y = axes

    def sketch() -> None:
        for name, values in lines.items():
            print(*([name] if len(lines) > 1 else []), plots.text_curve(values), sep="\n")

    output.print_results(
        context,
        [
            {"title": title, "name": name, "x": x, "y": y, "values": [*values]}
            for name, values in lines.items()
        ],
        lambda path: plots.plot_lines(path, lines, title=title, x=x, y=y),
        sketch=sketch,
    )

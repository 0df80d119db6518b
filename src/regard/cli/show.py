"""regard show: pictures of what the code does, as a PNG, as text in the terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.bounds import SEED, Ge, Le
from regard.cli.command import bounded, refuse_options
from regard.cli.options import Assignments, numeric
from regard.cli.results import OutputOptions
from regard.cli.screen import show, table
from regard.cli.show_model import attention, fertilities, model, settings
from regard.cli.verbs import Verbs
from regard.config import Doc, Flag, Settings
from regard.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor

_MASKS = ("causal", "padding", "prefix", "permutation", "segments", "window")
_SIZE = Ge(0), Le(1000)


def build_app() -> Verbs:
    """The group of verbs."""
    app = Verbs(
        help="Draw positions, masks, scores, schedules, attention and models.", no_args_is_help=True
    )
    for verb in (positions, mask, scores, schedule, attention, fertilities, model, settings):
        app.command(verb.__name__)(verb)
    return app


@dataclass(frozen=True)
class PositionOptions(Settings):
    """Which position encodings are drawn."""

    length: Annotated[int, Doc("how many positions"), Ge(1), Le(1000)] = 50
    width: Annotated[int, Doc("size of the vectors"), Ge(1), Le(1000)] = 64
    layout: Annotated[Literal["interleaved", "halves"], Doc("of sines and cosines")] = "interleaved"
    dimension: Annotated[
        tuple[int, ...], Doc("draw this dimension as a curve; may be repeated"), Ge(0), Le(999)
    ] = ()


def positions(context: typer.Context, options: PositionOptions, output: OutputOptions) -> None:
    """Sinusoidal position encodings as a heat map, or some of their dimensions as curves."""
    from regard.attention.positions import sinusoids

    output.claim(context)
    table = sinusoids(options.length, options.width, options.layout).numpy()
    for number in options.dimension:
        if not 0 <= number < options.width:
            last = options.width - 1
            raise ConfigError(f"There is no dimension {number}. They go from 0 to {last}.")
    title = "sinusoidal positions"
    if options.dimension:
        lines = {f"dimension {number}": table[:, number].tolist() for number in options.dimension}
        draw_curves(context, output, lines, title=title, axes=("position", "value"))
    else:
        draw_map(context, output, table, title=title, axes=("position", "dimension"))


@dataclass(frozen=True)
class MaskOptions(Settings):
    """Sizes of masks; a field's name is followed by the kind that has it."""

    length: Annotated[int, Doc("tokens of the longest sentence"), Ge(1), Le(1000)] = 12
    real: Annotated[int, Doc("padding: tokens that are real"), *_SIZE] = 8
    prefix: Annotated[int, Doc("prefix: tokens that all may see"), *_SIZE] = 5
    width: Annotated[int, Doc("window: how far a token sees"), *_SIZE] = 2
    segment: Annotated[int, Doc("segments: tokens of each"), Ge(1), Le(1000)] = 4
    seed: Annotated[int, Doc("permutation: another seed, another order"), Ge(0), SEED] = 1
    itself: Annotated[
        bool,
        Doc("permutation: a token sees itself (content), or not (query)"),
        Flag("--itself/--no-itself"),
    ] = True
    memory: Annotated[int, Doc("causal: tokens remembered before it"), *_SIZE] = 0


_OF_ONE_MASK = {  # options that have an effect on one kind only
    "memory": "causal",
    "real": "padding",
    "prefix": "prefix",
    "seed": "permutation",
    "itself": "permutation",
    "segment": "segments",
    "width": "window",
}


def mask(
    context: typer.Context,
    options: MaskOptions,
    output: OutputOptions,
    kind: Annotated[str, typer.Argument(help=f"{', '.join(_MASKS)}.")] = "causal",
) -> None:
    """Who may look at whom: rows are queries, columns are keys, filled = may look."""
    output.claim(context)
    if kind not in _MASKS:
        raise ConfigError(f"There is no mask {kind!r}. Masks are {', '.join(_MASKS)}.")
    others = {name for name, owner in _OF_ONE_MASK.items() if owner != kind}
    refuse_options(context, others, f"no effect on the {kind} mask. Leave it out.")
    allowed = _mask(kind, options).float().numpy()
    draw_map(context, output, allowed, title=f"{kind} mask", axes=("query", "key"))


def _mask(kind: str, options: MaskOptions) -> Tensor:
    """Which key each query may look at, (queries, keys)."""
    import torch

    from regard.attention import masks

    length = options.length

    def permutation() -> Tensor:
        generator = torch.Generator().manual_seed(options.seed)
        order = torch.randperm(length, generator=generator)
        return masks.permutation(order.argsort(), itself=options.itself)[0]

    places = torch.arange(length)[None] // options.segment
    prefix, real = torch.tensor([options.prefix]), torch.tensor([options.real])
    drawn: dict[str, Callable[[], Tensor]] = {
        "causal": lambda: masks.causal(length, options.memory + length),
        "padding": lambda: masks.padding(real, length)[0, 0].expand(length, -1),
        "prefix": lambda: masks.prefix(prefix, length)[0, 0],
        "permutation": permutation,
        "segments": lambda: masks.segments(places, places)[0, 0],
        "window": lambda: masks.window(length, length, options.width),
    }
    return drawn[kind]()


def scores(
    context: typer.Context,
    output: OutputOptions,
    widths: Annotated[
        list[int] | None,
        typer.Argument(
            help="Sizes of queries and keys. [4 64 1024]", callback=bounded(Ge(1), Le(100_000))
        ),
    ] = None,
    keys: Annotated[int, numeric("Keys that each query looks at", 2, 100_000)] = 32,
) -> None:
    """Why scores are divided by sqrt(d): products of random queries and keys, and their softmax."""
    from regard import plots
    from regard.attention.saturation import measured

    output.claim(context)
    sizes = widths or [4, 64, 1024]
    found = [one for width in sizes for one in measured(width, keys=keys)]
    columns = ["d", "score", "spread of scores", "largest weight", "gradient left"]
    rows = [
        (one.width, one.score, *(f"{x:.3f}" for x in (one.spread, one.largest, one.gradient)))
        for one in found
    ]
    names = ("dot", "scaled dot")
    bars = {name: [one.largest for one in found if one.score == name] for name in names}
    labels = [f"d = {width}" for width in sizes]
    title = "how much of a query goes to one key"
    output.present(
        context,
        found,
        lambda path: plots.bars(path, bars, labels=labels, title=title, y="largest weight"),
        text=lambda: show(table("", columns, rows)),
    )


def schedule(
    context: typer.Context,
    output: OutputOptions,
    recipe: Annotated[Path | None, typer.Argument(help="A TOML file.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base, big, recurrent, convolutional or ctc.")
    ] = None,
    assignments: Assignments = None,
) -> None:
    """The learning rate of each update of a run."""
    from regard.tasks.recipes import run_config
    from regard.training.optimizer import learning_rate

    output.claim(context, recipe)
    changes = {} if recipe else {"out": "nowhere"}
    config = run_config(recipe, preset=preset, changes=changes, assignments=assignments or [])
    steps = range(1, config.training.max_steps + 1)
    rates = [learning_rate(step, config.training, config.model.width) for step in steps]
    title = "learning rate"
    draw_curves(context, output, {"rate": rates}, title=title, axes=("update", "rate"))


def draw_map(
    context: typer.Context, output: OutputOptions, values: Any, *, title: str, axes: tuple[str, str]
) -> None:
    """A matrix, a NumPy array whose axes (rows, columns) have names."""
    from regard import plots

    names = {"title": title, "rows": axes[0], "columns": axes[1]}
    output.present(
        context,
        [{**names, "values": values.tolist()}],
        lambda path: plots.heat_map(path, values, **names),
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
    """Lines (x, y) in one picture, or as texts below each other."""
    from regard import plots

    x, y = axes

    def sketch() -> None:
        for name, values in lines.items():
            print(*([name] if len(lines) > 1 else []), plots.text_curve(values), sep="\n")

    output.present(
        context,
        [
            {"title": title, "name": name, "x": x, "y": y, "values": [*values]}
            for name, values in lines.items()
        ],
        lambda path: plots.curves(path, lines, title=title, x=x, y=y),
        sketch=sketch,
    )

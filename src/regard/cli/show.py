"""regard show: pictures of what the code does, as a PNG or as text in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Device, Model
from regard.errors import ConfigError

app = typer.Typer(
    help="Draw positions, masks, schedules, attention and models.", no_args_is_help=True
)

Out = Annotated[Path | None, typer.Option(help="A PNG to write; without it, text is printed.")]


@app.command()
def positions(
    length: Annotated[int, typer.Option(help="How many positions.", min=1)] = 50,
    width: Annotated[int, typer.Option(help="Size of the vectors.", min=1)] = 64,
    layout: Annotated[str, typer.Option(help="interleaved or halves.")] = "interleaved",
    out: Out = None,
) -> None:
    """Sinusoidal position encodings as a heat map."""
    from regard import plots
    from regard.attention.positions import sinusoids
    from regard.cli.screen import written

    if layout not in ("interleaved", "halves"):
        raise ConfigError(f"There is no layout {layout!r}. Use interleaved or halves.")
    table = sinusoids(length, width, "halves" if layout == "halves" else "interleaved").numpy()
    if out is None:
        print(plots.text_heat_map(table))
    else:
        complete = plots.heat_map(
            out, table, title="sinusoidal positions", rows="position", columns="dimension"
        )
        written(out, complete)


@app.command()
def mask(
    kind: Annotated[str, typer.Argument(help="causal or padding.")] = "causal",
    length: Annotated[int, typer.Option(help="Tokens of the longest sentence.", min=1)] = 12,
    real: Annotated[int, typer.Option(help="padding: tokens that are real.", min=0)] = 8,
    out: Out = None,
) -> None:
    """Who may look at whom: rows are queries, columns are keys, filled = may look."""
    import torch

    from regard import plots
    from regard.attention.masks import causal, padding
    from regard.cli.screen import written

    if kind == "causal":
        allowed = causal(length, length)
    elif kind == "padding":
        allowed = padding(torch.tensor([real]), length)[0, 0].expand(length, -1)
    else:
        raise ConfigError(f"There is no mask {kind!r}. Masks are causal and padding.")
    if out is None:
        print(plots.text_heat_map(allowed.float().numpy()))
    else:
        complete = plots.heat_map(
            out, allowed.float().numpy(), title=f"{kind} mask", rows="query", columns="key"
        )
        written(out, complete)


@app.command()
def schedule(
    recipe: Annotated[Path | None, typer.Argument(help="A TOML file.")] = None,
    preset: Annotated[str | None, typer.Option(help="tiny, small, base or big.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", help="section.name=value")
    ] = None,
    out: Out = None,
) -> None:
    """The learning rate of each update of a run."""
    from regard import plots
    from regard.cli.screen import written
    from regard.training.config import run_config
    from regard.training.optimizer import learning_rate

    changes = {} if recipe else {"out": "nowhere"}
    config = run_config(recipe, preset=preset, changes=changes, assignments=assignments or [])
    steps = range(1, config.training.max_steps + 1)
    rates = [learning_rate(step, config.training, config.model.width) for step in steps]
    if out is None:
        print(plots.text_curve(rates))
    else:
        complete = plots.curves(out, {"rate": rates}, title="learning rate", x="update", y="rate")
        written(out, complete)


@app.command()
def attention(
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A source sentence.", show_default=False)],
    part: Annotated[str, typer.Option(help="cross, encoder or decoder.")] = "cross",
    layer: Annotated[int | None, typer.Option(help="One layer, from 1; default: all.")] = None,
    head: Annotated[int | None, typer.Option(help="One head, from 1; default: all.")] = None,
    out: Out = None,
    device: Device = "auto",
) -> None:
    """Where a model looks while it translates a sentence."""
    from regard import plots
    from regard.cli.screen import written
    from regard.decoding.translator import Translator

    if part not in ("cross", "encoder", "decoder"):
        raise ConfigError(f"There is no attention {part!r}. Use cross, encoder or decoder.")
    [translation] = Translator.load(model, device=device).translate([sentence], attention=True)
    seen = translation.attention
    if seen is None:
        raise ConfigError("There is nothing to look at: the sentence is empty.")
    weights = getattr(seen, part)
    weights = weights[_one(layer, weights.shape[0], "layer")]
    weights = weights[:, _one(head, weights.shape[1], "head")]
    rows = seen.source if part == "encoder" else seen.target
    columns = ["<s>", *seen.target[:-1]] if part == "decoder" else seen.source
    print(translation.text)
    if out is None:
        print(plots.text_heat_map(weights.mean((0, 1)), rows, columns))
    else:
        title = f"{part} attention: {sentence}"
        complete = plots.attention_heads(
            out, weights, title=title, row_labels=rows, column_labels=columns
        )
        written(out, complete)


def _one(number: int | None, count: int, what: str) -> slice:
    if number is None:
        return slice(None)
    if not 1 <= number <= count:
        raise ConfigError(f"There is no {what} {number}. This model has {what}s 1 to {count}.")
    return slice(number - 1, number)


@app.command()
def model(folder: Model) -> None:
    """What a model folder holds: languages, settings, parts and their parameters."""
    from rich.console import Console

    from regard.cli.screen import table
    from regard.config import as_tree
    from regard.models.folder import ModelFolder

    found = ModelFolder.read(folder)
    sizes: dict[str, int] = {}
    for name, parameter in found.model().named_parameters():
        part = name.split(".")[0]
        sizes[part] = sizes.get(part, 0) + parameter.numel()
    languages = [found.languages[side] or "?" for side in ("source", "target")]
    console = Console(highlight=False)
    console.print(f"{folder}: {found.config.architecture}, {' to '.join(languages)}")
    console.print(table("", ["part", "parameters"], [*sizes.items(), ("all", sum(sizes.values()))]))
    rows = [(name, str(value)) for name, value in as_tree(found.config).items()]
    rows += [("vocabulary", f"{found.vocabulary.source} / {found.vocabulary.target}")]
    rows += [("longest source seen", f"{found.seen.longest_source} subwords")]
    console.print(table("", ["setting", "value"], rows))


@app.command()
def settings() -> None:
    """Every setting of a run, for recipes and --set."""
    from rich.console import Console

    from regard.cli.screen import table
    from regard.config import all_settings
    from regard.training.config import RunConfig

    rows = [
        (path, str(setting.default) if path != "out" else "", setting.kind, setting.doc)
        for path, setting in all_settings(RunConfig)
    ]
    Console(highlight=False).print(table("", ["setting", "default", "kind", "meaning"], rows))

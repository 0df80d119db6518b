"""regard show: pictures of what the code does, as a PNG or as text in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from regard.bounds import Ge, Le
from regard.cli.command import bounded
from regard.cli.drawing import draw_curves, draw_map
from regard.cli.given import refuse_options
from regard.cli.options import Assignments, Device, Model, Overwrite, numeric
from regard.cli.outputs import claim
from regard.cli.verbs import Verbs
from regard.errors import ConfigError
from regard.json_text import dumps

if TYPE_CHECKING:
    from regard.config import Setting, Settings
    from regard.decoding.look import Attention

_MARGIN = " " * 4
_OPTIONS = {  # of masks, by their kind
    "causal": ["memory"],
    "padding": ["real"],
    "prefix": ["prefix"],
    "permutation": ["seed", "itself"],
    "segments": ["segment"],
    "window": ["width"],
}
Out = Annotated[Path | None, typer.Option(help="A PNG to write; without it, text is printed.")]


def positions(
    context: typer.Context,
    length: Annotated[int, numeric("How many positions", 1, 1_000)] = 50,
    width: Annotated[int, numeric("Size of the vectors", 1, 1_000)] = 64,
    layout: Annotated[str, typer.Option(help="interleaved or halves.")] = "interleaved",
    dimension: Annotated[
        list[int] | None, numeric("Draw this dimension as a curve; may be repeated", 0, 999)
    ] = None,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Sinusoidal position encodings as a heat map, or some of their dimensions as curves."""
    from regard.attention.positions import sinusoids

    claim(context, {"--out": out}, inputs=[], overwrite=overwrite)
    if layout not in ("interleaved", "halves"):
        raise ConfigError(f"There is no layout {layout!r}. Use interleaved or halves.")
    table = sinusoids(length, width, "halves" if layout == "halves" else "interleaved").numpy()
    for number in dimension or []:
        if not 0 <= number < width:
            raise ConfigError(f"There is no dimension {number}. They go from 0 to {width - 1}.")
    if dimension:
        lines = {f"dimension {number}": table[:, number].tolist() for number in dimension}
        draw_curves(out, lines, title="sinusoidal positions", x="position", y="value")
    else:
        draw_map(out, table, title="sinusoidal positions", rows="position", columns="dimension")


def mask(
    context: typer.Context,
    kind: Annotated[
        str, typer.Argument(help="causal, padding, prefix, permutation, segments or window.")
    ] = "causal",
    length: Annotated[int, numeric("Tokens of the longest sentence", 1, 1_000)] = 12,
    real: Annotated[int, numeric("padding: tokens that are real", 0, 1_000)] = 8,
    prefix: Annotated[int, numeric("prefix: tokens that all may see", 0, 1_000)] = 5,
    width: Annotated[int, numeric("window: how far a token sees", 0, 1_000)] = 2,
    segment: Annotated[int, numeric("segments: tokens of each", 1, 1_000)] = 4,
    seed: Annotated[int, numeric("permutation: another seed, another order", 0, 2**63 - 1)] = 1,
    itself: Annotated[
        bool, typer.Option(help="permutation: a token sees itself (content), or not (query).")
    ] = True,
    memory: Annotated[int, numeric("causal: tokens remembered before it", 0, 1_000)] = 0,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Who may look at whom: rows are queries, columns are keys, filled = may look."""
    import torch

    from regard.attention import masks

    claim(context, {"--out": out}, inputs=[], overwrite=overwrite)

    def permutation() -> torch.Tensor:
        order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
        return masks.permutation(order.argsort(), itself=itself)[0]

    places = torch.arange(length)[None] // segment
    drawn: dict[str, Callable[[], torch.Tensor]] = {
        "causal": lambda: masks.causal(length, memory + length),
        "padding": lambda: masks.padding(torch.tensor([real]), length)[0, 0].expand(length, -1),
        "prefix": lambda: masks.prefix(torch.tensor([prefix]), length)[0, 0],
        "permutation": permutation,
        "segments": lambda: masks.segments(places, places)[0, 0],
        "window": lambda: masks.window(length, length, width),
    }
    if kind not in drawn:
        raise ConfigError(f"There is no mask {kind!r}. Masks are {', '.join(drawn)}.")
    others = {name for mask, names in _OPTIONS.items() if mask != kind for name in names}
    refuse_options(context, others, f"no effect on the {kind} mask. Leave it out.")
    allowed = drawn[kind]().float().numpy()
    draw_map(out, allowed, title=f"{kind} mask", rows="query", columns="key")


def scores(
    context: typer.Context,
    widths: Annotated[
        list[int] | None,
        typer.Argument(
            help="Sizes of queries and keys. [4 64 1024]", callback=bounded(Ge(1), Le(100_000))
        ),
    ] = None,
    keys: Annotated[int, numeric("Keys that each query looks at", 2, 100_000)] = 32,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """Why scores are divided by sqrt(d): products of random queries and keys, and their softmax."""
    from regard import plots
    from regard.attention.saturation import measured
    from regard.cli.screen import show, table, written

    claim(context, {"--out": out}, inputs=[], overwrite=overwrite)
    found = [one for width in widths or [4, 64, 1024] for one in measured(width, keys=keys)]
    columns = ["d", "score", "spread of scores", "largest weight", "gradient left"]
    rows = [
        (one.width, one.score, *(f"{x:.3f}" for x in (one.spread, one.largest, one.gradient)))
        for one in found
    ]
    show(table("", columns, rows))
    if out is not None:
        bars = {
            name: [one.largest for one in found if one.score == name]
            for name in ("dot", "scaled dot")
        }
        labels = [f"d = {width}" for width in widths or [4, 64, 1024]]
        complete = plots.bars(
            out,
            bars,
            labels=labels,
            title="how much of a query goes to one key",
            y="largest weight",
        )
        written(out, complete)


def schedule(
    context: typer.Context,
    recipe: Annotated[Path | None, typer.Argument(help="A TOML file.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base, big, recurrent, convolutional or ctc.")
    ] = None,
    assignments: Assignments = None,
    out: Out = None,
    overwrite: Overwrite = False,
) -> None:
    """The learning rate of each update of a run."""
    from regard.training.config import run_config
    from regard.training.optimizer import learning_rate

    claim(context, {"--out": out}, inputs=[recipe], overwrite=overwrite)
    changes = {} if recipe else {"out": "nowhere"}
    config = run_config(recipe, preset=preset, changes=changes, assignments=assignments or [])
    steps = range(1, config.training.max_steps + 1)
    rates = [learning_rate(step, config.training, config.model.width) for step in steps]
    draw_curves(out, {"rate": rates}, title="learning rate", x="update", y="rate")


def attention(
    context: typer.Context,
    model: Model,
    sentence: Annotated[
        str, typer.Argument(help="A source sentence, or a text.", show_default=False)
    ],
    part: Annotated[
        str | None, typer.Option(help="cross, encoder or decoder; default: the first there is.")
    ] = None,
    layer: Annotated[int | None, numeric("One layer, from 1; default: all", 1, 1000)] = None,
    head: Annotated[int | None, numeric("One head, from 1; default: all", 1, 100_000)] = None,
    out: Out = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
) -> None:
    """Where a model looks while it translates a sentence, or reads a text."""
    from regard import plots
    from regard.cli.screen import written

    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    parts = ["cross", "encoder", "decoder"]
    if part is not None and part not in parts:
        raise ConfigError(f"There is no attention {part!r}. Use cross, encoder or decoder.")
    seen = _attention(model, sentence, device)
    part = part or next((name for name in parts if len(getattr(seen, name))), "cross")
    weights = getattr(seen, part)
    if not len(weights):
        raise ConfigError(f"This model has no {part} attention: nothing in it looks there.")
    weights = weights[_one(layer, weights.shape[0], "layer")]
    weights = weights[:, _one(head, weights.shape[1], "head")]
    rows = seen.source if part == "encoder" else seen.target
    columns = seen.read if part == "decoder" else seen.source
    if out is None:
        print(plots.text_heat_map(weights.mean((0, 1)), rows, columns))
    else:
        title = f"{part} attention: {sentence}"
        complete = plots.attention_heads(
            out, weights, title=title, row_labels=rows, column_labels=columns
        )
        written(out, complete)


def _attention(model: Path, sentence: str, device: str) -> Attention:
    """What `regard show attention` shows; a translation is printed, too."""
    from regard.decoding.look import look_at_text
    from regard.decoding.translator import Translator
    from regard.devices import device_named
    from regard.models.folder import ModelFolder, load_model
    from regard.models.language import LanguageModel

    if not sentence.strip():
        raise ConfigError("There is nothing to look at: the sentence is empty.")
    described = ModelFolder.read(model)
    if described.config.content == "pairs":
        translator = Translator.load(model, device=device, engine="torch")
        [translation] = translator.translate([sentence], attention=True)
        print(translation.text)
        assert translation.attention is not None
        return translation.attention
    _, loaded = load_model(model, device_named(device), described)
    assert isinstance(loaded, LanguageModel)
    ids = described.tokenizers.target.encode(sentence)
    longest = loaded.max_length
    if longest is not None and len(ids) + 2 > longest:
        raise ConfigError(
            f"The text has {len(ids)} tokens and two marks, and this model reads {longest} at "
            "once. Take a shorter one."
        )
    return look_at_text(loaded, described.tokenizers, ids)


def fertilities(
    context: typer.Context,
    model: Model,
    sentence: Annotated[str, typer.Argument(help="A source sentence.", show_default=False)],
    out: Out = None,
    overwrite: Overwrite = False,
    device: Device = "auto",
) -> None:
    """How a model that writes all words at once copies a sentence, and what it writes there."""
    from regard import plots
    from regard.cli.screen import written as told
    from regard.data.loader import with_ends
    from regard.decoding.look import written_pieces
    from regard.decoding.parallel import written_at_once
    from regard.decoding.translator import Translator
    from regard.models.nonautoregressive import NonAutoregressive

    claim(context, {"--out": out}, inputs=[model], overwrite=overwrite)
    translator = Translator.load(model, device=device, engine="torch")
    own, tokenizers = translator.models[0], translator.folder.tokenizers
    if not isinstance(own, NonAutoregressive):
        raise ConfigError(
            f"{model} writes word by word, and has no fertilities. `regard show attention` shows "
            "where it looks."
        )
    ids = tokenizers.source.encode(sentence)
    found = written_at_once(own, with_ends([ids]))
    source = [*tokenizers.source.pieces(ids), "</s>"]
    pieces = written_pieces(tokenizers, found.words)
    [translation] = translator.translate([sentence])
    print(translation.text)
    if out is not None:
        title = f"{sentence} - {translation.text}"
        complete = plots.copies(out, source, found.origins, pieces, found.read, title=title)
        told(out, complete)
        return
    for place, word in enumerate(source):
        own_pieces = [
            piece if read else f"({piece})"
            for piece, origin, read in zip(pieces, found.origins, found.read, strict=True)
            if origin == place
        ]
        print(f"{word:>15}  {found.fertilities[place]}  {' '.join(own_pieces)}".rstrip())


def _one(number: int | None, count: int, what: str) -> slice:
    if number is None:
        return slice(None)
    if not 1 <= number <= count:
        raise ConfigError(f"There is no {what} {number}. This model has {what}s 1 to {count}.")
    return slice(number - 1, number)


def model(folder: Model) -> None:
    """What a model folder holds: languages, settings, parts and their parameters."""
    from regard.cli.screen import show, table
    from regard.config import as_tree
    from regard.models.folder import ModelFolder

    found = ModelFolder.read(folder)
    sizes: dict[str, int] = {}
    for name, parameter in found.model().named_parameters():
        part = name.split(".")[0]
        sizes[part] = sizes.get(part, 0) + parameter.numel()
    print(f"{folder}: {found.config.kind}, {found.direction}")
    show(table("", ["part", "parameters"], [*sizes.items(), ("all", sum(sizes.values()))]))
    rows = [(name, str(value)) for name, value in as_tree(found.config).items()]
    rows += [("vocabulary", f"{found.vocabulary.source} / {found.vocabulary.target}")]
    rows += [("longest source seen", f"{found.seen.longest_source} subwords")]
    print()
    show(table("", ["setting", "value"], rows))


def settings(
    section: Annotated[
        str | None,
        typer.Argument(
            help="data, model or training, or a part such as model.attention; unset: all.",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[str, typer.Option(help="Which kind of model.")] = "transformer",
) -> None:
    """The settings of a run, for recipes and --set."""
    from regard.cli.screen import say
    from regard.config import all_kinds
    from regard.training.config import RunConfig

    kinds = {name: cls for _, name, cls in all_kinds(RunConfig)}
    if kind not in kinds:
        raise ConfigError(f"There is no kind {kind!r}. Kinds are {', '.join(kinds)}.")
    rows = [
        (path, setting)
        for path, setting in _settings_with(kind, kinds[kind])
        if section is None or f"{path}.".startswith(f"{section}.")
    ]
    if not rows:
        raise ConfigError(
            f"A {kind} model has no settings {section!r}. Use data, model or training, or leave "
            "it out for all of them."
        )
    for path, setting in rows:
        _print_setting(path, setting)
    if section in (None, "model"):
        others = ", ".join(name for name in kinds if name != kind)
        say(f"Other kinds of model, with --kind: {others}.")


def _settings_with(kind: str, model: type[Settings]) -> Iterator[tuple[str, Setting]]:
    """Every setting of a run with that kind of model."""
    from regard.config import all_settings
    from regard.training.config import RunConfig

    for path, setting in all_settings(RunConfig):
        if path == "model.kind":
            yield path, replace(setting, default=kind)
            yield from (row for row in all_settings(model, "model.") if row[0] != path)
        else:
            yield path, setting


def _print_setting(path: str, setting: Setting) -> None:
    """Name and default as one would write them, and the meaning below: 80 columns are enough."""
    default = setting.default
    if default is MISSING:
        print(path)
    else:
        print(f"{path} = {'none' if default is None else dumps(default)}")
    limits = "; ".join([setting.kind, *setting.limits])
    print(fill(f"{setting.doc} ({limits})", 80, initial_indent=_MARGIN, subsequent_indent=_MARGIN))


def build_app() -> Verbs:
    """The group of verbs."""
    app = Verbs(
        help="Draw positions, masks, scores, schedules, attention and models.", no_args_is_help=True
    )
    for verb in (positions, mask, scores, schedule, attention, fertilities, model, settings):
        app.command(verb.__name__)(verb)
    return app

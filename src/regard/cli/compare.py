"""regard compare: layers of three kinds as sentences grow, or trained models side by side."""

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
from regard.cli.options import argument, numeric
from regard.cli.results import OutputOptions
from regard.cli.screen import show, table
from regard.config import Doc, Flag, Settings
from regard.data.corpus import read_parallel
from regard.decoding.config import Runtime, SearchConfig
from regard.errors import ConfigError, DataError
from regard.progress import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.evaluation.contest import Compared, Entrant, Test
    from regard.evaluation.growth import Point, Sizes
    from regard.training.metrics_log import Effort

_DIGITS = 6  # of a length
_MEMORY = {
    "cuda": "Memory: the peak of PyTorch's allocator in a pass, beside weights and input.",
    "cpu": "Memory: what forward keeps for backward, beside weights and input.",
}
_LEGEND = (
    "Of one sentence, by formula: multiply-adds; steps that must follow each other; path: layers "
    "or steps\nbetween its first and last word (convolutions: with gaps that widen layer by layer)."
    "\nOf the batch: the median of the rounds."
)


@dataclass(frozen=True)
class ModelsOptions(Settings):
    """How trained models are compared."""

    source: Annotated[Path | None, Doc("text to translate")] = None
    reference: Annotated[Path | None, Doc("the right translations")] = None
    lowercase: Annotated[bool, Doc("count BLEU without case")] = False
    batch_size: Annotated[int, Doc("sentences of a large batch"), Ge(2), Le(10_000)] = 100
    one_by_one: Annotated[
        int, Doc("so many sentences are also translated alone"), Ge(1), Le(1_000_000)
    ] = 100
    gradients: Annotated[
        int,
        Doc(
            "the gradient that reaches the first word of so many sentences, where an encoder reads "
            "them and a decoder writes word by word"
        ),
        Ge(0),
        Le(100_000),
    ] = 0
    backend: Annotated[
        str,
        Doc(
            "torch runs every kind, so that models are compared and not backends; ctranslate2, or "
            "auto as in `regard translate`"
        ),
        Flag(formerly=("--engine",)),
    ] = "torch"


@dataclass(frozen=True)
class LayersOptions(Settings):
    """How layers are compared."""

    width: Annotated[int, Doc("size of a word's vector"), Ge(1), Le(10_000)] = 256
    heads: Annotated[int, Doc("of self-attention"), Ge(1), Le(1000)] = 4
    kernel: Annotated[int, Doc("words that a convolution sees"), Ge(1), Le(999)] = 3
    batch: Annotated[int, Doc("sentences in a batch"), Ge(1), Le(10_000)] = 4
    lengths: Annotated[str, Doc("words of a sentence")] = "16,32,64,128,256,512,1024,2048,4096"
    seconds: Annotated[
        float, Doc("a pass that would take longer is left out"), Ge(0), Le(86_400)
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
        argument("Model or run folders; without any, layers are compared.", "MODEL"),
    ] = None,
    rounds: Annotated[int, numeric("All take turns so often; the median is told", 1, 10_000)] = 3,
) -> None:
    """Compare trained models: BLEU, size, training, speed. Without models: layers, by length.

    Layers are self-attention, recurrence and convolution: time and memory for sentences of any
    length, beside what the formulas say.
    """
    from regard.devices import keep_freed_memory

    if models:
        names = {field.name for field in fields(LayersOptions)}
        refuse_options(context, names, "for layers, and models are compared. Leave it out.")
    else:
        names = {"beam_size", *(field.name for field in fields(ModelsOptions))}
        refuse_options(context, names, "for models. Name some, or leave it out.")
    output.claim(context, *(models or []), test.source, test.reference)
    keep_freed_memory()
    if models:
        _compare_models(context, models, test, search.beam_size, runtime, rounds, output)
    else:
        _compare_layers(context, layers, runtime, rounds, output)


def _sizes(layers: LayersOptions, precision: str | None) -> Sizes:
    from regard.devices import Precision as Half
    from regard.evaluation.growth import Sizes

    for known in get_args(Half):
        if known == (precision or "auto"):
            return Sizes(layers.width, layers.heads, layers.kernel, layers.batch, known)
    raise ConfigError(f"Layers have no precision {precision!r}. Use float32 or bfloat16.")


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) <= _DIGITS and int(word) for word in words):
        raise ConfigError(
            f"--lengths is {text[:80]!r}. Write numbers and commas, such as 16,256,4096, "
            "each below a million."
        )
    return sorted({int(word) for word in words})


def _compare_layers(
    context: typer.Context,
    layers: LayersOptions,
    runtime: Runtime,
    rounds: int,
    output: OutputOptions,
) -> None:
    from regard.devices import device_named
    from regard.evaluation.growth import grown

    sizes, lengths = _sizes(layers, runtime.precision), _numbers(layers.lengths)
    where = device_named(runtime.device)
    say(sizes.told(where))
    found = []
    for points in grown(sizes, lengths, where, rounds=rounds, seconds=layers.seconds):
        say(f"{points[0].length:,} words: done")
        found += points
    text = partial(_print_layers, found, where.type)
    output.present(context, found, partial(_draw_layers, found), text=text)


def _print_layers(points: Sequence[Point], device: str) -> None:
    """One table, and how to read it."""
    columns = ["words", "layer", "multiply-adds", "steps", "path"]
    columns += ["forward, ms", "backward, ms", "memory, MB"]
    rows = [
        [
            *(p.length, p.layer, p.operations, p.steps, p.path),
            *((p.missing, "", "") if p.missing else (p.forward, p.backward, p.memory)),
        ]
        for p in points
    ]
    show(table("", columns, rows))
    print(f"\n{_LEGEND} {_MEMORY[device]}")


def _draw_layers(points: Sequence[Point], path: Path) -> bool:
    """Operations, time and memory against the length, each in steps of the same factor."""
    from regard import plots

    lengths = sorted({point.length for point in points})
    layers = dict.fromkeys(point.layer for point in points)

    def panel(title: str, of: str) -> plots.Panel:
        lines = {layer: [getattr(p, of) for p in points if p.layer == layer] for layer in layers}
        places = [math.log2(length) for length in lengths]
        return plots.Panel(title, "words", places, lines, [*map(str, lengths)], logarithmic=True)

    panels = [panel("multiply-adds of a sentence", "operations")]
    panels += [panel("forward, ms", "forward"), panel("backward, ms", "backward")]
    return plots.line_panels(path, [*panels, panel("memory, MB", "memory")])


def _test(options: ModelsOptions, beam_size: int) -> Test:
    from regard.evaluation.contest import Test
    from regard.evaluation.metrics import Counting

    if options.source is None or options.reference is None:
        raise ConfigError("Models are compared on a test set. Give --source and --reference.")
    sources, references = read_parallel(options.source, options.reference)
    if not references:
        raise DataError(
            f"{options.reference} is empty: there is nothing to compare. Check the path."
        )
    counting = Counting(options.lowercase)
    return Test(sources, references, counting, beam_size, options.batch_size, options.one_by_one)


def _entrants(folders: Sequence[Path], backend: str, runtime: Runtime) -> list[Entrant]:
    """All of them, so that a bad third folder is told before two have been translated."""
    from regard.decoding.choice import refuse_exported
    from regard.decoding.translator import Translator
    from regard.evaluation.contest import Entrant

    for path in folders:
        refuse_exported(path)  # parameters are counted, and gradients followed
    entrants = []
    for folder in folders:
        translator = Translator.load(
            folder, device=runtime.device, backend=backend, precision=runtime.precision
        )
        say(f"{folder}: {translator.engine_told}")
        entrants.append(Entrant(str(folder), translator))
    return entrants


def _compare_models(
    context: typer.Context,
    folders: Sequence[Path],
    options: ModelsOptions,
    beam_size: int,
    runtime: Runtime,
    rounds: int,
    output: OutputOptions,
) -> None:
    from regard.evaluation.contest import compare as compare_models
    from regard.evaluation.metrics import case_hint
    from regard.training.metrics_log import effort

    test = _test(options, beam_size)
    entrants = _entrants(folders, options.backend, runtime)
    found = compare_models(entrants, test, rounds=rounds, gradients=options.gradients)
    for model in found:
        if model.quality.case_is_lost:
            say(case_hint(model.name))
    efforts = [*map(effort, folders)]  # None where a folder has no metrics.jsonl
    rows = [
        {**asdict(model), "batch_size": test.batch_size, "training": run and asdict(run)}
        for model, run in zip(found, efforts, strict=True)
    ]
    text = partial(_print_models, found, efforts, test.batch_size)
    output.present(context, rows, partial(_draw_models, found, test.batch_size), text=text)


def _print_models(
    models: Sequence[Compared], efforts: Sequence[Effort | None], batch_size: int
) -> None:
    """The table of all figures, BLEU by length, and how far gradients reach."""
    columns = ["model", "kind", "BLEU", "parameters", "training, s", "target tokens/s"]
    columns += ["sentences/s, one by one", f"{batch_size} at a time"]
    rows = [
        [
            *(m.name, m.kind, m.quality.bleu, m.parameters),
            *((f"{e.seconds:,.0f}", f"{e.tokens_per_second:,.0f}") if e else ("", "")),
            *(m.speed.one_by_one, m.speed.in_batches),
        ]
        for m, e in zip(models, efforts, strict=True)
    ]
    show(table("", columns, rows))
    print(f"\n{models[0].quality.signature}\n")
    print_by_length([m.name for m in models], [m.quality.by_length for m in models])
    for when, norms in _reaches(models).items():
        places = enumerate(zip(*norms.values(), strict=False), 1)  # that all models have
        table_rows = [[str(place), *(f"{x:.2g}" for x in row)] for place, row in places]
        print(f"\nThe gradient that reaches the first source word, {when} training,")
        show(table("", ["from subword", *norms], table_rows))


def _reaches(models: Sequence[Compared]) -> dict[str, dict[str, list[float]]]:
    """Before and after training: place by place, of the models of which that is known."""
    known = {model.name: asdict(model.reach) for model in models if model.reach}
    times = ("before", "after") if known else ()
    return {when: {name: reach[when] for name, reach in known.items()} for when in times}


def _draw_models(models: Sequence[Compared], batch_size: int, path: Path) -> bool:
    """BLEU by length, speeds, and how far gradients reach."""
    from regard import plots

    groups = models[0].quality.by_length
    panels = [
        plots.Panel(
            "BLEU by length",
            "words of the reference",
            range(len(groups)),
            {m.name: [group.bleu for group in m.quality.by_length] for m in models},
            [group.words for group in groups],
        ),
        plots.Panel(
            "sentences a second",
            "",
            range(2),
            {m.name: [m.speed.one_by_one, m.speed.in_batches] for m in models},
            ["one by one", f"{batch_size} at a time"],
            logarithmic=True,
        ),
    ]
    for when, norms in _reaches(models).items():
        places = range(1, min(map(len, norms.values())) + 1)
        lines = {name: own[: len(places)] for name, own in norms.items()}
        title = f"gradient at the first word, {when} training"
        panels.append(plots.Panel(title, "subword written", places, lines, logarithmic=True))
    return plots.line_panels(path, panels)

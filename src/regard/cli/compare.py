"""regard compare: layers of three kinds as sentences grow, or trained models side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from regard.cli.given import refuse_options
from regard.cli.options import Device, Overwrite, Precision, numeric, setting
from regard.cli.outputs import claim
from regard.decoding.config import SearchConfig
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.cli.comparison import LayersTold, ModelsTold
    from regard.evaluation.contest import Entrant, Test
    from regard.evaluation.growth import Sizes

_DIGITS = 6  # of a length


def compare(
    context: typer.Context,
    models: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="MODEL",
            help="Model or run folders; without any, layers are compared.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Models: text to translate.")] = None,
    reference: Annotated[Path | None, typer.Option(help="Models: the right translations.")] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="Models: count BLEU without case.")
    ] = False,
    beam_size: Annotated[int, setting(SearchConfig, "beam_size")] = SearchConfig.beam_size,
    batch_size: Annotated[int, numeric("Models: sentences of a large batch", 2, 10_000)] = 100,
    one_by_one: Annotated[
        int, numeric("Models: so many sentences are also translated alone", 1, 1_000_000)
    ] = 100,
    gradients: Annotated[
        int,
        numeric(
            "Models: the gradient that reaches the first word of so many sentences, where an "
            "encoder reads them and a decoder writes word by word",
            0,
            100_000,
        ),
    ] = 0,
    engine: Annotated[
        str,
        typer.Option(
            help="Models: torch runs every kind, so that models are compared and not engines; "
            "ctranslate2, or auto as in `regard translate`."
        ),
    ] = "torch",
    width: Annotated[int, numeric("Layers: size of a word's vector", 1, 10_000)] = 256,
    heads: Annotated[int, numeric("Layers: of self-attention", 1, 1_000)] = 4,
    kernel: Annotated[int, numeric("Layers: words that a convolution sees", 1, 999)] = 3,
    batch: Annotated[int, numeric("Layers: sentences in a batch", 1, 10_000)] = 4,
    lengths: Annotated[
        str, typer.Option(help="Layers: words of a sentence.")
    ] = "16,32,64,128,256,512,1024,2048,4096",
    seconds: Annotated[
        float, numeric("Layers: a pass that would take longer is left out", 0, 86_400)
    ] = 5.0,
    rounds: Annotated[int, numeric("All take turns so often; the median is told", 1, 10_000)] = 3,
    out: Annotated[Path | None, typer.Option(help="A PNG with the same figures.")] = None,
    overwrite: Overwrite = False,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
    precision: Precision = None,
    device: Device = "auto",
) -> None:
    """Compare trained models: BLEU, size, training, speed. Without models: layers, by length.

    Layers are self-attention, recurrence and convolution: time and memory for sentences of any
    length, beside what the formulas say.
    """
    from regard.decoding.choice import refuse_exported
    from regard.devices import keep_freed_memory

    if format not in ("text", "json"):
        raise ConfigError(f"There is no format {format!r}. Use text or json.")
    if not models and (source or reference or gradients):
        raise ConfigError("--source, --reference and --gradients are for models. Name some.")
    _refuse_ignored(context)
    inputs = [*(models or []), source, reference]
    claim(context, {"--out": out}, inputs=inputs, overwrite=overwrite)
    keep_freed_memory()
    if models:
        for path in models:
            refuse_exported(path)  # parameters are counted, and gradients followed
        test = _test(source, reference, lowercase, beam_size, batch_size, one_by_one)
        entrants = _entrants(models, engine=engine, precision=precision, device=device)
        told: LayersTold | ModelsTold = _models(
            models, entrants, test, rounds=rounds, gradients=gradients
        )
    else:
        sizes = _sizes(width, heads, kernel, batch, precision)
        told = _layers(sizes, _numbers(lengths), device, rounds=rounds, seconds=seconds)
    if format == "json":
        told.print_json()
    else:
        told.print_text()
    if out is not None:
        told.draw(out)


def _sizes(width: int, heads: int, kernel: int, batch: int, precision: str | None) -> Sizes:
    from regard.devices import Precision as Half
    from regard.evaluation.growth import Sizes

    for known in get_args(Half):
        if known == (precision or "auto"):
            return Sizes(width, heads, kernel, batch, known)
    raise ConfigError(f"Layers have no precision {precision!r}. Use float32 or bfloat16.")


def _numbers(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) <= _DIGITS and int(word) for word in words):
        raise ConfigError(
            f"--lengths is {text[:80]!r}. Write numbers and commas, such as 16,256,4096, "
            "each below a million."
        )
    return sorted({int(word) for word in words})


def _layers(
    sizes: Sizes, lengths: Sequence[int], device: str, *, rounds: int, seconds: float
) -> LayersTold:
    from regard.cli.comparison import LayersTold
    from regard.cli.screen import say
    from regard.devices import device_named
    from regard.evaluation.growth import grown

    where = device_named(device)
    say(sizes.told(where))
    found = []
    for points in grown(sizes, lengths, where, rounds=rounds, seconds=seconds):
        say(f"{points[0].length:,} words: done")
        found += points
    return LayersTold(found, where.type)


def _refuse_ignored(context: typer.Context) -> None:
    """Refuse options for models where layers are compared, and the other way round."""
    layers = {"width", "heads", "kernel", "batch", "lengths", "seconds"}
    models = {"lowercase", "beam_size", "batch_size", "one_by_one", "engine"}
    if context.params["models"]:
        refuse_options(context, layers, "for layers, and models are compared. Leave it out.")
    else:
        refuse_options(context, models, "for models. Name some, or leave it out.")


def _test(
    source: Path | None,
    reference: Path | None,
    lowercase: bool,
    beam_size: int,
    batch_size: int,
    one_by_one: int,
) -> Test:
    from regard.data.corpus import read_parallel
    from regard.evaluation.contest import Test
    from regard.evaluation.metrics import Counting

    if source is None or reference is None:
        raise ConfigError("Models are compared on a test set. Give --source and --reference.")
    sources, references = read_parallel(source, reference)
    if not references:
        raise DataError(f"{reference} is empty: there is nothing to compare. Check the path.")
    return Test(sources, references, Counting(lowercase), beam_size, batch_size, one_by_one)


def _entrants(
    folders: Sequence[Path], *, engine: str, precision: str | None, device: str
) -> list[Entrant]:
    """All of them, so that a bad third folder is told before two have been translated."""
    from regard.cli.screen import say
    from regard.decoding.translator import Translator
    from regard.evaluation.contest import Entrant

    entrants = []
    for folder in folders:
        translator = Translator.load(folder, device=device, engine=engine, precision=precision)
        say(f"{folder}: {translator.engine_told}")
        entrants.append(Entrant(str(folder), translator))
    return entrants


def _models(
    folders: Sequence[Path],
    entrants: Sequence[Entrant],
    test: Test,
    *,
    rounds: int,
    gradients: int,
) -> ModelsTold:
    from regard.cli.comparison import ModelsTold
    from regard.cli.report import say_case_is_lost
    from regard.evaluation.contest import compare as compare_models
    from regard.training.record import effort

    found = compare_models(entrants, test, rounds=rounds, gradients=gradients)
    for model in found:
        if model.quality.case_is_lost:
            say_case_is_lost(model.name)
    return ModelsTold(found, [effort(folder) for folder in folders], test.batch_size)

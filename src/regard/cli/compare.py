"""regard compare: layers of three kinds as sentences grow, or trained models side by side."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from regard.bounds import Ge, Le
from regard.cli.command import Fields
from regard.cli.given import refuse_options
from regard.cli.options import argument, numeric
from regard.cli.results import OutputOptions
from regard.config import Doc, Flag, Settings
from regard.decoding.config import Runtime, SearchConfig
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regard.cli.comparison import LayersTold, ModelsTold
    from regard.evaluation.contest import Entrant, Test
    from regard.evaluation.growth import Sizes

_DIGITS = 6  # of a length


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
    told: LayersTold | ModelsTold
    if models:
        told = _models(models, test, search.beam_size, runtime, rounds)
    else:
        told = _layers(layers, runtime, rounds)
    output.present(context, told)


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


def _layers(layers: LayersOptions, runtime: Runtime, rounds: int) -> LayersTold:
    from regard.cli.comparison import LayersTold
    from regard.devices import device_named
    from regard.evaluation.growth import grown
    from regard.progress import say

    sizes, lengths = _sizes(layers, runtime.precision), _numbers(layers.lengths)
    where = device_named(runtime.device)
    say(sizes.told(where))
    found = []
    for points in grown(sizes, lengths, where, rounds=rounds, seconds=layers.seconds):
        say(f"{points[0].length:,} words: done")
        found += points
    return LayersTold(found, where.type)


def _test(options: ModelsOptions, beam_size: int) -> Test:
    from regard.data.corpus import read_parallel
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
    from regard.progress import say

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


def _models(
    folders: Sequence[Path], options: ModelsOptions, beam_size: int, runtime: Runtime, rounds: int
) -> ModelsTold:
    from regard.cli.comparison import ModelsTold
    from regard.evaluation.contest import compare as compare_models
    from regard.evaluation.metrics import case_hint
    from regard.progress import say
    from regard.training.metrics_log import effort

    test = _test(options, beam_size)
    entrants = _entrants(folders, options.backend, runtime)
    found = compare_models(entrants, test, rounds=rounds, gradients=options.gradients)
    for model in found:
        if model.quality.case_is_lost:
            say(case_hint(model.name))
    return ModelsTold(found, [effort(folder) for folder in folders], test.batch_size)

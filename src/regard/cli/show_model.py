"""The parts of `regard show` that are about models: attention, fertilities, sizes, settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from regard.bounds import Ge, Le
from regard.cli.options import DeviceOnly, Model, argument
from regard.cli.results import OutputOptions, Printed
from regard.cli.screen import show, table
from regard.config import Doc, Setting, Settings, all_kinds, all_settings, as_tree
from regard.errors import ConfigError
from regard.json_text import dumps
from regard.progress import say

if TYPE_CHECKING:
    from regard.decoding.attention_maps import Attention

_PARTS = ("cross", "encoder", "decoder")


@dataclass(frozen=True)
class AttentionOptions(Settings):
    """Which attention of a model is drawn."""

    part: Annotated[
        Literal["cross", "encoder", "decoder"] | None, Doc("unset: the first there is")
    ] = None
    layer: Annotated[int | None, Doc("one layer, from 1; unset: all"), Ge(1), Le(1000)] = None
    head: Annotated[int | None, Doc("one head, from 1; unset: all"), Ge(1), Le(100_000)] = None


def attention(
    context: typer.Context,
    model: Model,
    sentence: Annotated[str, argument("A source sentence, or a text.")],
    options: AttentionOptions,
    runtime: DeviceOnly,
    output: OutputOptions,
) -> None:
    """Where a model looks while it translates a sentence, or reads a text."""
    from regard import plots

    output.claim(context, model)
    seen, translation = _attention(model, sentence, runtime.device)
    first = next((name for name in _PARTS if len(getattr(seen, name))), "cross")
    part = options.part or first
    weights = getattr(seen, part)
    if not len(weights):
        raise ConfigError(f"This model has no {part} attention: nothing in it looks there.")
    weights = weights[_one(options.layer, weights.shape[0], "layer")]
    weights = weights[:, _one(options.head, weights.shape[1], "head")]
    rows = seen.source if part == "encoder" else seen.target
    columns = seen.read if part == "decoder" else seen.source
    named = {"text": sentence, "translation": translation, "part": part}
    title = f"{part} attention: {sentence}"
    output.present(
        context,
        [{**named, "rows": rows, "columns": columns, "weights": weights.tolist()}],
        lambda path: plots.attention_heads(
            path, weights, title=title, row_labels=rows, column_labels=columns
        ),
        text=None if translation is None else lambda: print(translation),
        sketch=lambda: print(plots.text_heat_map(weights.mean((0, 1)), rows, columns)),
    )


def _attention(model: Path, sentence: str, device: str) -> tuple[Attention, str | None]:
    """The attention maps of a text, and its translation where the model translates."""
    from regard.decoding.attention_maps import look_at_text
    from regard.decoding.translator import Translator
    from regard.devices import device_named
    from regard.models.folder import ModelFolder, load_model

    if not sentence.strip():
        raise ConfigError("There is nothing to look at: the sentence is empty.")
    described = ModelFolder.read(model)
    if described.config.translates:
        translator = Translator.load(model, device=device, backend="torch")
        [translation] = translator.translate([sentence], attention=True)
        assert translation.attention is not None
        return translation.attention, translation.text
    _, loaded = load_model(model, device_named(device), described)
    ids = described.tokenizers.target.encode(sentence)
    longest = loaded.max_length
    if longest is not None and len(ids) + 2 > longest:
        raise ConfigError(
            f"The text has {len(ids)} tokens and two marks, and this model reads {longest} at "
            "once. Take a shorter one."
        )
    return look_at_text(loaded, described.tokenizers, ids), None


def fertilities(
    context: typer.Context,
    model: Model,
    sentence: Annotated[str, argument("A source sentence.")],
    runtime: DeviceOnly,
    output: OutputOptions,
) -> None:
    """How a model that writes all words at once copies a sentence, and what it writes there."""
    from regard import plots
    from regard.data.pairs import with_ends
    from regard.decoding.attention_maps import written_pieces
    from regard.decoding.parallel import written_at_once
    from regard.decoding.translator import Translator
    from regard.models.nonautoregressive import NonAutoregressive

    output.claim(context, model)
    translator = Translator.load(model, device=runtime.device, backend="torch")
    own, tokenizers = translator.models[0], translator.folder.tokenizers
    if own.config.autoregressive:
        raise ConfigError(
            f"{model} writes word by word, and has no fertilities. `regard show attention` shows "
            "where it looks."
        )
    ids = tokenizers.source.encode(sentence)
    found = written_at_once(cast(NonAutoregressive, own), with_ends([ids]))
    source = [*tokenizers.source.pieces(ids), "</s>"]
    pieces = written_pieces(tokenizers, found.words)
    [translation] = translator.translate([sentence])
    words = _copies(source, pieces, found)
    title = f"{sentence} - {translation.text}"
    places = found.origins, pieces, found.read

    def sketch() -> None:
        for word in words:
            line = f"{word['piece']:>15}  {word['fertility']}  {' '.join(word['written'])}"
            print(line.rstrip())

    output.present(
        context,
        [{"text": sentence, "translation": translation.text, "words": words}],
        lambda path: plots.copies(path, source, *places, title=title),
        text=lambda: print(translation.text),
        sketch=sketch,
    )


def _copies(source: list[str], pieces: list[str], found: Any) -> list[dict[str, Any]]:
    """For each source piece, what is written for it; in brackets what is left out in the end."""
    return [
        {
            "piece": word,
            "fertility": int(found.fertilities[place]),
            "written": [
                piece if read else f"({piece})"
                for piece, origin, read in zip(pieces, found.origins, found.read, strict=True)
                if origin == place
            ],
        }
        for place, word in enumerate(source)
    ]


def _one(number: int | None, count: int, what: str) -> slice:
    if number is None:
        return slice(None)
    if not 1 <= number <= count:
        raise ConfigError(f"There is no {what} {number}. This model has {what}s 1 to {count}.")
    return slice(number - 1, number)


def model(context: typer.Context, folder: Model, output: Printed) -> None:
    """What a model folder holds: languages, settings, parts and their parameters."""
    from regard.models.folder import ModelFolder

    found = ModelFolder.read(folder)
    sizes: dict[str, int] = {}
    for name, parameter in found.model().named_parameters():
        part = name.split(".")[0]
        sizes[part] = sizes.get(part, 0) + parameter.numel()
    total = sum(sizes.values())
    described = {"kind": found.config.kind, "direction": found.direction}
    vocabulary = {"source": found.vocabulary.source, "target": found.vocabulary.target}
    longest = found.seen.longest_source
    with output.results(context) as results:
        counts = {"parameters": total, "parts": sizes, "vocabulary": vocabulary}
        settings = {"longest_source": longest, "settings": as_tree(found.config)}
        results.add({"folder": str(folder), **described, **counts, **settings})
    if not results.is_text:
        return
    print(f"{folder}: {found.config.kind}, {found.direction}")
    show(table("", ["part", "parameters"], [*sizes.items(), ("all", total)]))
    rows = [(name, str(value)) for name, value in as_tree(found.config).items()]
    rows += [("vocabulary", f"{found.vocabulary.source} / {found.vocabulary.target}")]
    rows += [("longest source seen", f"{longest} subwords")]
    print()
    show(table("", ["setting", "value"], rows))


def settings(
    context: typer.Context,
    output: Printed,
    section: Annotated[
        str | None,
        argument("data, model or training, or a part such as model.attention; unset: all."),
    ] = None,
    kind: Annotated[str, typer.Option(help="Which kind of model.")] = "transformer",
) -> None:
    """The settings of a run, for recipes and --set."""
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
    with output.results(context) as results:
        for path, setting in rows:
            results.add(_described(path, setting), _printed(path, setting))
    if section in (None, "model"):
        others = ", ".join(name for name in kinds if name != kind)
        say(f"Other kinds of model, with --kind: {others}.")


def _settings_with(kind: str, model: type[Settings]) -> Iterator[tuple[str, Setting]]:
    """Every setting of a run with that kind of model."""
    from regard.training.config import RunConfig

    for path, setting in all_settings(RunConfig):
        if path == "model.kind":
            yield path, replace(setting, default=kind)
            yield from (row for row in all_settings(model, "model.") if row[0] != path)
        else:
            yield path, setting


def _printed(path: str, setting: Setting) -> str:
    """Name and default as one would write them, and the meaning below: 80 columns are enough."""
    default = setting.default
    value = "" if default is MISSING else f" = {'none' if default is None else dumps(default)}"
    limits = "; ".join([setting.kind, *setting.limits])
    doc = fill(f"{setting.doc} ({limits})", 80, initial_indent=" " * 4, subsequent_indent=" " * 4)
    return f"{path}{value}\n{doc}"


def _described(path: str, setting: Setting) -> dict[str, Any]:
    """A setting as JSON; one that must be given has no default."""
    default = {} if setting.default is MISSING else {"default": setting.default}
    named = {"name": path, "type": setting.kind, "limits": setting.limits}
    return {**named, **default, "meaning": setting.doc}

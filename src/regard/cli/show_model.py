"""regard show: attention maps, fertilities, model folders and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, asdict, dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from regard.bounds import Ge, Le
from regard.cli.options import DeviceOnly, Model, argument
from regard.cli.results import FormatOnly, OutputOptions
from regard.cli.tables import print_table, table
from regard.config import Doc, Setting, Settings, all_kinds, all_settings
from regard.decoding.text_config import DirectionConfig
from regard.errors import ConfigError
from regard.json_text import dumps
from regard.progress import notify
from regard.settings_tree import to_tree

if TYPE_CHECKING:
    from regard.decoding.attention_maps import AttentionMaps
    from regard.decoding.nonautoregressive import DecodedSentence

_PARTS = ("cross", "encoder", "decoder")


@dataclass(frozen=True)
class AttentionOptions(Settings):
    """Attention layers and heads."""

    part: Annotated[
        Literal["cross", "encoder", "decoder"] | None,
        Doc("attention type; default: the first that the model has"),
    ] = None
    layer: Annotated[int | None, Doc("layer, from 1; default: all"), Ge(1), Le(1000)] = None
    head: Annotated[int | None, Doc("head, from 1; default: all"), Ge(1), Le(100_000)] = None


def attention(
    context: typer.Context,
    model: Model,
    sentence: Annotated[str, argument("Source sentence, or text for a language model.")],
    options: AttentionOptions,
    direction: DirectionConfig,
    runtime: DeviceOnly,
    output: OutputOptions,
) -> None:
    """Plot the attention maps of a model for a sentence and its translation, or for a text."""
    from regard import plots

    output.reserve(context, model)
    maps, translation = _attention(model, sentence, runtime.device, direction)
    first = next((name for name in _PARTS if len(getattr(maps, name))), "cross")
    part = options.part or first
    weights = getattr(maps, part)
    if not len(weights):
        remedy = "Use another model" if part == first else f"Use --part {first}"
        raise ConfigError(f"--part is {part}, but this model has no {part} attention. {remedy}.")
    weights = weights[_select(options.layer, weights.shape[0], "layer")]
    weights = weights[:, _select(options.head, weights.shape[1], "head")]
    rows = maps.source if part == "encoder" else maps.target
    columns = maps.decoder_inputs if part == "decoder" else maps.source
    fields = {"text": sentence, "translation": translation, "part": part}
    title = f"{part} attention: {sentence}"
    output.print_results(
        context,
        [{**fields, "rows": rows, "columns": columns, "weights": weights.tolist()}],
        lambda path: plots.plot_attention_heads(
            path,
            weights,
            title=title,
            row_labels=rows,
            column_labels=columns,
            first=(options.layer or 1, options.head or 1),
        ),
        text=None if translation is None else lambda: print(translation),
        sketch=lambda: print(plots.text_heat_map(weights.mean((0, 1)), rows, columns)),
    )


def _attention(
    model: Path, sentence: str, device: str, direction: DirectionConfig
) -> tuple[AttentionMaps, str | None]:
    """The attention maps of a text, and its translation where the model translates."""
    from regard.decoding.attention_maps import text_attention_maps
    from regard.devices import resolve_device
    from regard.models.folder import ModelFolder, load_model
    from regard.pipelines.translator import Translator

    if not sentence.strip():
        raise ConfigError("The sentence is empty. Give a text with at least one word.")
    folder = ModelFolder.read(model)
    if folder.config.translates:
        translator = Translator.load(model, device=device, backend="torch")
        [translation] = translator.translate(
            [sentence], attention=True, document_context=False, **asdict(direction)
        )
        assert translation.attention is not None
        return translation.attention, translation.text
    if direction != DirectionConfig():
        raise ConfigError(
            f"{model} does not translate, so --source-lang, --target-lang and --zero-shot have no "
            "effect. Leave them out."
        )
    _, loaded = load_model(model, resolve_device(device), folder)
    ids = folder.tokenizers.target.encode(sentence)
    longest = loaded.max_length
    if longest is not None and len(ids) + 2 > longest:
        raise ConfigError(
            f"The text has {len(ids)} tokens and two special tokens, but the maximum length of "
            f"this model is {longest}. Shorten it."
        )
    return text_attention_maps(loaded, folder.tokenizers, ids), None


def fertilities(
    context: typer.Context,
    model: Model,
    sentence: Annotated[str, argument("Source sentence.")],
    direction: DirectionConfig,
    runtime: DeviceOnly,
    output: OutputOptions,
) -> None:
    """Plot the fertilities of a non-autoregressive model and the tokens that it predicts."""
    from regard import plots
    from regard.data.pairs import with_eos
    from regard.decoding.attention_maps import output_subwords
    from regard.decoding.nonautoregressive import decode_sentence
    from regard.models.nonautoregressive import NonAutoregressive
    from regard.pipelines.directions import select_direction
    from regard.pipelines.translator import Translator

    output.reserve(context, model)
    translator = Translator.load(model, device=runtime.device, backend="torch")
    network, tokenizers = translator.models[0], translator.folder.tokenizers
    if network.config.autoregressive:
        raise ConfigError(
            f"{model} is autoregressive and has no fertilities. Use `regard show attention`."
        )
    selected = select_direction(translator.text, direction)
    ids = tokenizers.source.encode(selected.tagged(sentence))
    decoded = decode_sentence(cast(NonAutoregressive, network), with_eos([ids]))
    source = [*tokenizers.source.ids_to_tokens(ids), "</s>"]
    subwords = output_subwords(tokenizers, decoded.tokens)
    [translation] = translator.translate([sentence], **asdict(direction))
    rows = _copies(source, subwords, decoded)
    title = f"{sentence} - {translation.text}"
    copies = decoded.source_positions, subwords, decoded.emitted

    def sketch() -> None:
        for row in rows:
            line = f"{row['piece']:>15}  {row['fertility']}  {' '.join(row['written'])}"
            print(line.rstrip())

    output.print_results(
        context,
        [{"text": sentence, "translation": translation.text, "words": rows}],
        lambda path: plots.plot_fertilities(path, source, *copies, title=title),
        text=lambda: print(translation.text),
        sketch=sketch,
    )


def _copies(
    source: list[str], subwords: list[str], decoded: DecodedSentence
) -> list[dict[str, Any]]:
    """The predicted subwords of each source subword; in brackets if CTC drops them."""
    return [
        {
            "piece": token,
            "fertility": int(decoded.fertilities[position]),
            "written": [
                subword if emitted else f"({subword})"
                for subword, copied_from, emitted in zip(
                    subwords, decoded.source_positions, decoded.emitted, strict=True
                )
                if copied_from == position
            ],
        }
        for position, token in enumerate(source)
    ]


def _select(number: int | None, count: int, option: str) -> slice:
    if number is None:
        return slice(None)
    if not 1 <= number <= count:
        raise ConfigError(f"--{option} is {number}, but this model has {option}s 1 to {count}.")
    return slice(number - 1, number)


def model(context: typer.Context, folder: Model, output: FormatOnly) -> None:
    """Print the kind, languages, settings and parameter counts of a model."""
    from regard.models.folder import ModelFolder

    model_folder = ModelFolder.read(folder)
    sizes: dict[str, int] = {}
    for name, parameter in model_folder.model().named_parameters():
        part = name.split(".")[0]
        sizes[part] = sizes.get(part, 0) + parameter.numel()
    total = sum(sizes.values())
    document_context = model_folder.document_context
    summary = {
        "kind": model_folder.config.kind,
        "direction": model_folder.direction,
        "directions": [*map(to_tree, model_folder.directions)],
        "document_context": dict(zip(("source", "target"), document_context.counts, strict=True)),
    }
    vocabulary = {
        "source": model_folder.vocabulary.source,
        "target": model_folder.vocabulary.target,
    }
    statistics = model_folder.data_statistics
    longest, annotated = statistics.longest_source, statistics.annotated_terms
    with output.results(context) as results:
        counts = {"parameters": total, "parts": sizes, "vocabulary": vocabulary}
        data = {"longest_source": longest, "annotated_terms": annotated}
        settings = {"settings": to_tree(model_folder.config)}
        results.add({"folder": str(folder), **summary, **counts, **data, **settings})
    if not results.is_text:
        return
    print(f"{folder}: {model_folder.config.kind}, {model_folder.direction}")
    print_table(table("", ["part", "parameters"], [*sizes.items(), ("all", total)]))
    if model_folder.directions:
        directions = [
            (str(each.direction), each.pairs, each.longest_source)
            for each in model_folder.directions
        ]
        print()
        print_table(table("", ["direction", "training pairs", "longest source"], directions))
    rows = [(name, str(value)) for name, value in to_tree(model_folder.config).items()]
    rows += [("vocabulary", f"{model_folder.vocabulary.source} / {model_folder.vocabulary.target}")]
    rows += [("longest training source", f"{longest} subwords")]
    rows += [("annotated terms", f"in {annotated:.1%} of the training pairs")] if annotated else []
    if document_context.size:
        rows += [("document context", str(document_context))]
    print()
    print_table(table("", ["setting", "value"], rows))


def settings(
    context: typer.Context,
    output: FormatOnly,
    section: Annotated[
        str | None,
        argument("Section: data, model, training, or part of one, such as model.attention."),
    ] = None,
    kind: Annotated[str, typer.Option(help="Model kind.")] = "transformer",
) -> None:
    """List the settings of recipes and `regard train --set`."""
    from regard.training.config import RunConfig

    kinds = {name: cls for _, name, cls in all_kinds(RunConfig)}
    if kind not in kinds:
        raise ConfigError(f"Unknown model kind {kind!r}. Use one of {', '.join(kinds)}.")
    rows = [
        (path, setting)
        for path, setting in _settings_with(kind, kinds[kind])
        if section is None or f"{path}.".startswith(f"{section}.")
    ]
    if not rows:
        raise ConfigError(
            f"Model kind {kind!r} has no section {section!r}. Use data, model or training, or "
            "leave it out to list all."
        )
    with output.results(context) as results:
        for path, setting in rows:
            results.add(_to_json(path, setting), _to_text(path, setting))
    if section in (None, "model"):
        others = ", ".join(name for name in kinds if name != kind)
        notify(f"Other model kinds, with --kind: {others}.")


def _settings_with(kind: str, model: type[Settings]) -> Iterator[tuple[str, Setting]]:
    """Every setting of a run with this model kind."""
    from regard.training.config import RunConfig

    for path, setting in all_settings(RunConfig):
        if path == "model.kind":
            yield path, replace(setting, default=kind)
            yield from (row for row in all_settings(model, "model.") if row[0] != path)
        else:
            yield path, setting


def _to_text(path: str, setting: Setting) -> str:
    """A setting as text: name and default, and its doc below, wrapped at 80 columns."""
    default = setting.default
    value = "" if default is MISSING else f" = {'none' if default is None else dumps(default)}"
    limits = "; ".join([setting.type_name, *setting.limits])
    doc = fill(f"{setting.doc} ({limits})", 80, initial_indent=" " * 4, subsequent_indent=" " * 4)
    return f"{path}{value}\n{doc}"


def _to_json(path: str, setting: Setting) -> dict[str, Any]:
    """A setting as JSON; a required one has no default."""
    default = {} if setting.default is MISSING else {"default": setting.default}
    fields = {"name": path, "type": setting.type_name, "limits": setting.limits}
    return {**fields, **default, "meaning": setting.doc}

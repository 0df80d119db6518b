"""regard align: which words belong together, from text alone or from a model's attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from regard.bounds import Ge, Le
from regard.cli.given import refuse_options
from regard.cli.options import DeviceOnly, argument, numeric
from regard.cli.outputs import claim
from regard.cli.results import OutputOptions, Results
from regard.config import Doc, Settings
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.data.aligner import Ids
    from regard.data.links import Links, Rule
    from regard.data.rows import Rows
    from regard.data.store import Store
    from regard.data.words import Pairs
    from regard.decoding.attention_maps import View
    from regard.decoding.translator import Translator
    from regard.evaluation.alignment import Gold
    from regard.models.base import Model
    from regard.text.tokenizer import Tokenizers

_LOOKED_AT = 1000  # pairs on which a layer and a head are chosen


class Aligner(Protocol):
    """Whatever says where the words of pairs come from."""

    def heads(self, source: Rows, target: Rows) -> Iterator[tuple[Ids, Ids]]:
        """For each pair, the places that target words come from, and those of source words."""
        ...


@dataclass(frozen=True)
class TextOptions(Settings):
    """What is aligned, and what is learned from."""

    source: Annotated[Path | None, Doc("source text")] = None
    target: Annotated[Path | None, Doc("its translation")] = None
    data: Annotated[
        Path | None,
        Doc(
            "a folder from `regard prepare` to learn from; without a text, it is aligned itself, "
            "and gets fertilities"
        ),
    ] = None
    subwords: Annotated[bool, Doc("link subwords, not words")] = False
    gold: Annotated[
        Path | None, Doc("links that people marked, as 1-2 or 1p2, to compare with")
    ] = None


@dataclass(frozen=True)
class AttentionOptions(Settings):
    """Which attention of a model is read."""

    layer: Annotated[
        int | None, Doc("look at this layer, from 1; unset: at the best"), Ge(1), Le(1000)
    ] = None
    head: Annotated[
        int | None, Doc("at this head of it, from 1; unset: at all"), Ge(1), Le(1000)
    ] = None
    written: Annotated[bool, Doc("as a word is written, not as it is read")] = False


def align(
    context: typer.Context,
    text: TextOptions,
    attention: AttentionOptions,
    runtime: DeviceOnly,
    output: OutputOptions,
    model: Annotated[
        Path | None,
        argument("A model folder, to align by its attention."),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="How two directions become one: forward, backward, intersection, union or "
            "grow-diag-final-and."
        ),
    ] = "grow-diag-final-and",
    line: Annotated[int, numeric("The line that is drawn", 1, 1_000_000_000)] = 1,
) -> None:
    """Print which words of two texts belong together, or put fertilities into a prepared folder.

    Without a model, that is learned from the text or folder. With one, it is read from the layer
    and head of its attention that agree best with what would be learned, or with --gold.
    """
    from regard.data.store import Store

    _refuse_ignored(context)
    chosen, store = _rule(rule), None if text.data is None else Store(text.data)
    if store is not None and text.source is None:
        files = _fertility_files(store)
        claim(context, files, inputs=[model], overwrite=output.overwrite)
    else:
        output.claim(context, model, text.source, text.target, text.data, text.gold)
    translator = None if model is None else _loaded(model, store, runtime.device)
    owner = translator.folder if translator is not None else store
    pairs = _pairs(text, None if owner is None else owner.tokenizers)
    if pairs is not None and line > len(pairs):
        raise ConfigError(f"There is no line {line}: the text has {len(pairs)}.")
    marked = None if text.gold is None or pairs is None else _gold(text.gold, pairs)
    aligner: Aligner
    if translator is None:
        aligner = _learned(store, pairs)
    elif attention.layer is not None:
        aligner = _told(translator.models[0], _sides(store, pairs, "train"), attention)
    else:
        aligner = _best(translator.models[0], store, pairs, marked, chosen)
    if pairs is None:
        assert store is not None
        _write_fertilities(store, aligner, chosen)
        return
    found = _links(aligner, pairs, chosen)
    _print_links(found, marked, output.results(context))
    if output.picture is not None:
        _draw(output.picture, pairs, found, line - 1)


def _refuse_ignored(context: typer.Context) -> None:
    """Refuse options that have no effect without others."""
    given = context.params
    source, target, data = (given[name] is not None for name in ("source", "target", "data"))
    if source != target or not (source or data):
        raise ConfigError("Give a text by --source and --target, or a folder by --data, or both.")
    if not source:
        names = {"gold", "picture", "subwords", "format"}
        refuse_options(context, names, "a text is needed. Give --source and --target.")
    if given["picture"] is None:
        refuse_options(context, {"line"}, "no effect without --picture. Leave it out.")
    if given["model"] is None:
        names = {"layer", "head", "written", "device"}
        refuse_options(context, names, "no effect without a model. Name one, or leave it out.")
    if given["layer"] is None:
        refuse_options(context, {"head", "written"}, "a layer is needed. Give --layer.")


def _rule(name: str) -> Rule:
    from regard.data.links import RULES

    for rule in RULES:
        if rule == name:
            return rule
    raise ConfigError(f"There is no rule {name!r}. Rules are {', '.join(RULES)}.")


def _loaded(model: Path, store: Store | None, device: str) -> Translator:
    """The model; a store must be of text as it reads it."""
    from regard.decoding.translator import Translator
    from regard.models.folder import refuse_other_text

    translator = Translator.load(model, device=device, backend="torch")
    if store is not None:
        refuse_other_text(model, translator.folder, store)
    return translator


def _pairs(text: TextOptions, tokenizers: Tokenizers | None) -> Pairs | None:
    """The text, tokenized as for a model or a store; without either, into words."""
    from regard.data.corpus import read_parallel
    from regard.data.words import Pairs, by_subwords, by_words

    if text.source is None or text.target is None:
        return None
    sources, targets = read_parallel(text.source, text.target)
    if tokenizers is not None:
        sides = by_subwords(sources, tokenizers.source), by_subwords(targets, tokenizers.target)
    elif text.subwords:
        raise ConfigError("--subwords needs a model or --data, which know subwords.")
    else:
        sides = by_words(sources), by_words(targets)
    return Pairs(*sides, not text.subwords)


def _gold(path: Path, pairs: Pairs) -> list[Gold]:
    from regard.evaluation.alignment import read_gold

    labels = [pairs.labels(number) for number in range(len(pairs))]
    return read_gold(path, [(len(source), len(target)) for source, target in labels])


def _learned(store: Store | None, pairs: Pairs | None) -> Aligner:
    """From a store, or else from the text itself."""
    from regard.data.aligner import BothWays
    from regard.progress import say

    sides = _sides(store, pairs, "train")
    if not all(len(side.flat()) for side in sides):
        raise DataError("There is nothing to learn from: the text has no words.")
    say(f"Learning from {len(sides[0]):,} pairs.")
    return BothWays.learn(*sides)


def _sides(store: Store | None, pairs: Pairs | None, part: str) -> tuple[Rows, Rows]:
    if store is not None:
        return store.part(part).sides
    assert pairs is not None
    return pairs.sides


def _told(model: Model, sides: tuple[Rows, Rows], options: AttentionOptions) -> Aligner:
    """The view of a model's attention that was asked for."""
    from regard.decoding.attention_maps import Gaze, View, all_views

    assert options.layer is not None
    head = None if options.head is None else options.head - 1
    view = View(not options.written, options.layer - 1, head)
    [seen] = all_views(model, *(side.first(1) for side in sides))
    if view not in seen.views:
        raise ConfigError(f"There is no {view}. The last that this model has is {seen.views[-2]}.")
    return Gaze(model, view)


def _best(
    model: Model, store: Store | None, pairs: Pairs | None, marked: list[Gold] | None, rule: Rule
) -> Aligner:
    """The view of a model's attention that agrees best with what people marked, or was learned."""
    from regard.decoding.attention_maps import Gaze, all_views
    from regard.evaluation.alignment import error_rates, taken_as_gold

    if marked is not None and pairs is not None:
        source, target = (side.first(_LOOKED_AT) for side in pairs.sides)
        gold, carried = marked[:_LOOKED_AT], pairs.links
    else:
        part = "valid" if store is not None and store.has("valid") else "train"
        source, target = (side.first(_LOOKED_AT) for side in _sides(store, pairs, part))
        gold = [taken_as_gold(*heads) for heads in _learned(store, pairs).heads(source, target)]
        carried = None
    rates = error_rates(list(all_views(model, source, target)), gold, rule, carried)
    return Gaze(model, _shown(rates, len(gold)))


def _shown(rates: dict[View, float], pairs: int) -> View:
    """The view with the lowest alignment error rate; all are shown."""
    from regard.cli.screen import table
    from regard.progress import console, say

    heads = len({view.head for view in rates}) - 1
    columns = ["alignment error rate, %", *(f"head {head + 1}" for head in range(heads)), "all"]
    rows: dict[str, list[str | float]] = {}
    for view, rate in rates.items():
        name = f"layer {view.layer + 1}, as a word is {'read' if view.reads else 'written'}"
        rows.setdefault(name, [name]).append(100 * rate)
    console.print(table("", columns, list(rows.values())))
    best = min(rates, key=lambda view: rates[view])
    say(f"Best on {pairs:,} pairs: {best}.")
    return best


def _links(aligner: Aligner, pairs: Pairs, rule: Rule) -> list[Links]:
    """Those of each line."""
    from regard.data.links import links_of

    return [
        pairs.links(number, links_of(*heads, rule))
        for number, heads in enumerate(aligner.heads(*pairs.sides))
    ]


def _print_links(found: Sequence[Links], marked: list[Gold] | None, results: Results) -> None:
    """The links of each line; and how good they are, if that is known."""
    from regard.data.links import pharaoh
    from regard.evaluation.alignment import agreement
    from regard.progress import say

    with results:
        for links in found:
            if results.is_text:
                print(pharaoh(links))
            else:
                results.add({"links": [[int(i), int(j)] for i, j in sorted(links)]})
    if marked is not None:
        one = agreement(found, marked)
        say(
            f"Alignment error rate {100 * one.error_rate:.2f} %, precision "
            f"{100 * one.precision:.2f} %, recall {100 * one.recall:.2f} %."
        )


def _draw(picture: Path, pairs: Pairs, found: Sequence[Links], number: int) -> None:
    from regard import plots
    from regard.cli.screen import written

    complete = plots.alignment(picture, *pairs.labels(number), found[number], title="")
    written(picture, complete)


def _fertility_files(store: Store) -> dict[str, Path]:
    """What is written for each part, by its name."""
    from regard.data.fertilities import fertilities_file

    parts = filter(store.has, ("train", "valid"))
    return {f"the {name} part": fertilities_file(store.folder, name) for name in parts}


def _write_fertilities(store: Store, aligner: Aligner, rule: Rule) -> None:
    """How many target subwords each source subword stands for, beside the store's ids."""
    import numpy as np

    from regard.data.fertilities import fertilities, read_fertilities, write_fertilities
    from regard.data.links import heads_of, links_of
    from regard.progress import say

    for name in filter(store.has, ("train", "valid")):
        part = store.part(name)
        both = aligner.heads(*part.sides)
        lengths = part.source.lengths().tolist()
        write_fertilities(
            store.folder,
            name,
            (
                fertilities(np.array(heads_of(links_of(*heads, rule), heads[0])), length)
                for heads, length in zip(both, lengths, strict=True)
            ),
        )
        found = np.minimum(read_fertilities(store.folder, name).flat(), 3)
        shares = np.bincount(found, minlength=4) / len(found)
        told = ", ".join(
            f"{100 * share:.1f} % {n}" for share, n in zip(shares, "0123", strict=True)
        )
        say(f"Written: fertilities of {name}, {len(part):,} pairs: {told} or more.")

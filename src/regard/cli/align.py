"""regard align: which words belong together, from text alone or from a model's attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.bounds import Ge, Le
from regard.cli.command import refuse_options
from regard.cli.options import DeviceOnly, argument, numeric
from regard.cli.outputs import claim
from regard.cli.results import OutputOptions
from regard.cli.screen import table
from regard.config import Doc, Settings
from regard.data.corpus import read_parallel
from regard.errors import ConfigError, DataError
from regard.progress import console, say

if TYPE_CHECKING:
    from regard.data.aligner import BothWays
    from regard.data.links import Rule
    from regard.data.rows import Rows
    from regard.data.store import Store
    from regard.data.words import Pairs
    from regard.decoding.attention_maps import Gaze, View
    from regard.decoding.translator import Translator
    from regard.evaluation.alignment import Gold
    from regard.models.base import Model
    from regard.text.tokenizer import Tokenizers

_LOOKED_AT = 1000  # pairs on which a layer and a head are chosen


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
    from regard.data.fertilities import fertilities_file
    from regard.data.links import RULES
    from regard.data.store import Store

    _refuse_ignored(context)
    if rule not in RULES:
        raise ConfigError(f"There is no rule {rule!r}. Rules are {', '.join(RULES)}.")
    chosen, store = rule, None if text.data is None else Store(text.data)
    if store is not None and text.source is None:
        parts = filter(store.has, ("train", "valid"))
        files = {f"the {name} part": fertilities_file(store.folder, name) for name in parts}
        claim(context, files, inputs=[model], overwrite=output.overwrite)
    else:
        output.claim(context, model, text.source, text.target, text.data, text.gold)
    translator = None if model is None else _loaded(model, store, runtime.device)
    owner = translator.folder if translator is not None else store
    pairs = _pairs(text, None if owner is None else owner.tokenizers)
    if pairs is not None and line > len(pairs):
        raise ConfigError(f"There is no line {line}: the text has {len(pairs)}.")
    marked = None if text.gold is None or pairs is None else _gold(text.gold, pairs)
    aligner: BothWays | Gaze
    if translator is None:
        aligner = _learned(store, pairs)
    elif attention.layer is not None:
        aligner = _told(translator.models[0], _sides(store, pairs, "train"), attention)
    else:
        aligner = _best(translator.models[0], store, pairs, marked, chosen)
    if pairs is not None:
        _present(context, aligner, pairs, chosen, marked, line - 1, output)
    elif store is not None:
        _write_fertilities(store, aligner, chosen)


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


def _learned(store: Store | None, pairs: Pairs | None) -> BothWays:
    """From a store, or else from the text itself."""
    from regard.data.aligner import BothWays

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


def _told(model: Model, sides: tuple[Rows, Rows], options: AttentionOptions) -> Gaze:
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
) -> Gaze:
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


def _present(
    context: typer.Context,
    aligner: BothWays | Gaze,
    pairs: Pairs,
    rule: Rule,
    marked: list[Gold] | None,
    drawn: int,
    output: OutputOptions,
) -> None:
    """The links of each line; how good they are, if that is known; and a picture of one line."""
    from regard.data.links import links_of, pharaoh
    from regard.evaluation.alignment import agreement

    found = [
        pairs.links(number, links_of(*heads, rule))
        for number, heads in enumerate(aligner.heads(*pairs.sides))
    ]
    if marked is not None:
        one = agreement(found, marked)
        say(
            f"Alignment error rate {100 * one.error_rate:.2f} %, precision "
            f"{100 * one.precision:.2f} %, recall {100 * one.recall:.2f} %."
        )

    def draw(path: Path) -> bool:
        from regard import plots

        return plots.alignment(path, *pairs.labels(drawn), found[drawn], title="")

    rows = [{"links": [[int(i), int(j)] for i, j in sorted(links)]} for links in found]
    lines = "".join(f"{pharaoh(links)}\n" for links in found)
    output.present(context, rows, draw, text=lambda: print(lines, end=""))


def _write_fertilities(store: Store, aligner: BothWays | Gaze, rule: Rule) -> None:
    """How many target subwords each source subword stands for, beside the store's ids."""
    import numpy as np

    from regard.data.fertilities import fertilities, read_fertilities, write_fertilities
    from regard.data.links import heads_of, links_of

    for name in filter(store.has, ("train", "valid")):
        part = store.part(name)
        both, lengths = aligner.heads(*part.sides), part.source.lengths().tolist()
        counts = (
            fertilities(np.array(heads_of(links_of(*heads, rule), heads[0])), length)
            for heads, length in zip(both, lengths, strict=True)
        )
        write_fertilities(store.folder, name, counts)
        found = np.minimum(read_fertilities(store.folder, name).flat(), 3)
        shares = np.bincount(found, minlength=4) / len(found)
        told = ", ".join(f"{100 * share:.1f} % {n}" for n, share in enumerate(shares))
        say(f"Written: fertilities of {name}, {len(part):,} pairs: {told} or more.")

"""regard align: word alignment, trained on parallel text or extracted from attention."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.bounds import Ge, Le
from regard.cli.command import refuse_options
from regard.cli.options import DeviceOnly, argument, number_option
from regard.cli.outputs import reserve_outputs
from regard.cli.results import OutputOptions
from regard.cli.tables import table
from regard.config import Doc, Flag, Settings
from regard.data.line_reader import read_parallel
from regard.errors import ConfigError, DataError
from regard.progress import console, notify

if TYPE_CHECKING:
    from regard.data.aligner import BidirectionalAligner
    from regard.data.alignment_input import AlignmentPairs
    from regard.data.alignments import Symmetrization
    from regard.data.rows import Rows
    from regard.data.store import Store
    from regard.decoding.attention_maps import AlignmentHead, AttentionAligner
    from regard.evaluation.alignment import GoldAlignment
    from regard.models.base import Model
    from regard.pipelines.translator import Translator
    from regard.text.tokenizer import Tokenizers

_SELECTION_PAIRS = 1000  # on which a layer and head are selected


@dataclass(frozen=True)
class TextOptions(Settings):
    """Text to align and training data."""

    source: Annotated[Path | None, Doc("source text file")] = None
    target: Annotated[Path | None, Doc("target text file")] = None
    data: Annotated[
        Path | None,
        Doc(
            "prepared folder to train the aligner on; without --source and --target, fertilities "
            "of its pairs are written to it"
        ),
    ] = None
    subwords: Annotated[bool, Doc("align subwords instead of words")] = False
    gold: Annotated[
        Path | None,
        Doc("gold alignments for evaluation, with sure links 1-2 and possible links 1p2"),
    ] = None


@dataclass(frozen=True)
class AttentionOptions(Settings):
    """Attention layer and head of a model."""

    layer: Annotated[
        int | None, Doc("attention layer, from 1; default: the best"), Ge(1), Le(1000)
    ] = None
    head: Annotated[
        int | None,
        Doc("attention head of --layer, from 1; default: the mean of all"),
        Ge(1),
        Le(1000),
    ] = None
    naive_att: Annotated[
        bool,
        Doc(
            "use the attention of the step that predicts a target token (NAIVE-ATT) instead of the "
            "step that reads it (SHIFT-ATT; Chen et al., 2020)"
        ),
        Flag(formerly=("--written=true",)),
    ] = False


def align(
    context: typer.Context,
    text: TextOptions,
    attention: AttentionOptions,
    runtime: DeviceOnly,
    output: OutputOptions,
    model: Annotated[
        Path | None,
        argument("Path of a model folder, to align by its attention; default: train an aligner."),
    ] = None,
    symmetrization: Annotated[
        str,
        typer.Option(
            help="Symmetrization of both directions: forward, backward, intersection, union or "
            "grow-diag-final-and."
        ),
        Flag(formerly=("--rule",)),
    ] = "grow-diag-final-and",
    line: Annotated[int, number_option("Line to plot with --picture", 1, 1_000_000_000)] = 1,
) -> None:
    """Print word alignments of parallel text, or write fertilities to a prepared folder.

    Without a model, an aligner is trained on the text or folder. With a model, alignments are
    extracted from the attention layer and head with the lowest alignment error rate against --gold,
    or against the trained aligner.
    """
    from regard.data.alignments import SYMMETRIZATIONS
    from regard.data.fertilities import fertilities_path

    _refuse_ignored(context)
    if symmetrization not in SYMMETRIZATIONS:
        raise ConfigError(
            f"--symmetrization is {symmetrization!r}, but must be one of "
            f"{', '.join(SYMMETRIZATIONS)}."
        )
    method, store = symmetrization, _read_store(text.data)
    if store is not None and text.source is None:
        parts = filter(store.has, ("train", "valid"))
        files = {f"the {name} split": fertilities_path(store.folder, name) for name in parts}
        reserve_outputs(context, files, inputs=[model], overwrite=output.overwrite)
    else:
        output.reserve(context, model, text.source, text.target, text.data, text.gold)
    translator = None if model is None else _load_translator(model, store, runtime.device)
    tokenized = translator.folder if translator is not None else store
    pairs = _read_pairs(text, None if tokenized is None else tokenized.tokenizers)
    if pairs is not None and line > len(pairs):
        raise ConfigError(f"--line is {line}, but the text has {len(pairs)} lines.")
    gold = None if text.gold is None or pairs is None else _read_gold(text.gold, pairs)
    aligner: BidirectionalAligner | AttentionAligner
    if translator is None:
        aligner = _train_aligner(store, pairs)
    elif attention.layer is not None:
        aligner = _aligner_by_head(translator.models[0], _sides(store, pairs, "train"), attention)
    else:
        aligner = _aligner_by_best_head(translator.models[0], store, pairs, gold, method)
    if pairs is not None:
        _print_alignments(context, aligner, pairs, method, gold, line - 1, output)
    elif store is not None:
        _write_fertilities(store, aligner, method)


def _refuse_ignored(context: typer.Context) -> None:
    """Raise an error for options that have no effect without others."""
    values = context.params
    source, target, data = (values[name] is not None for name in ("source", "target", "data"))
    if source != target or not (source or data):
        raise ConfigError(
            "There is nothing to align. Use --source and --target, or --data, or all three."
        )
    if not source:
        names = {"gold", "picture", "subwords", "format"}
        refuse_options(
            context, names, "no effect without --source and --target. Use both, or leave it out."
        )
    if values["picture"] is None:
        refuse_options(context, {"line"}, "no effect without --picture. Leave it out.")
    if values["model"] is None:
        names = {"layer", "head", "naive_att", "device"}
        refuse_options(
            context, names, "no effect without a model. Give a model folder, or leave it out."
        )
    if values["layer"] is None:
        refuse_options(
            context,
            {"head", "naive_att"},
            "no effect without --layer. Use --layer, or leave it out.",
        )


def _load_translator(model: Path, store: Store | None, device: str) -> Translator:
    """Load the model; the store must have the same tokenizers."""
    from regard.models.folder import refuse_other_text
    from regard.pipelines.translator import Translator

    translator = Translator.load(model, device=device, backend="torch")
    if translator.text.tokenizers.config.reverse_target:
        raise ConfigError(
            f"{model} is a right-to-left model, from which word alignments are not extracted. Use "
            "a left-to-right model."
        )
    if store is not None:
        refuse_other_text(model, translator.folder, store)
    return translator


def _read_pairs(text: TextOptions, tokenizers: Tokenizers | None) -> AlignmentPairs | None:
    """The text as subwords of the model or store; as words if there is neither."""
    from regard.data.alignment_input import (
        AlignmentPairs,
        segment_into_subwords,
        segment_into_words,
    )

    if text.source is None or text.target is None:
        return None
    sources, targets = read_parallel(text.source, text.target)
    if tokenizers is not None:
        sides = (
            segment_into_subwords(sources, tokenizers.source),
            segment_into_subwords(targets, tokenizers.target),
        )
    elif text.subwords:
        raise ConfigError("--subwords requires a tokenizer. Give a model folder, or use --data.")
    else:
        sides = segment_into_words(sources), segment_into_words(targets)
    return AlignmentPairs(*sides, not text.subwords)


def _read_gold(path: Path, pairs: AlignmentPairs) -> list[GoldAlignment]:
    from regard.evaluation.alignment import read_gold_alignments

    labels = [pairs.labels(number) for number in range(len(pairs))]
    return read_gold_alignments(path, [(len(source), len(target)) for source, target in labels])


def _train_aligner(store: Store | None, pairs: AlignmentPairs | None) -> BidirectionalAligner:
    """Train an aligner on the store, or else on the text itself."""
    from regard.data.aligner import BidirectionalAligner

    sides = _sides(store, pairs, "train")
    if not all(len(side.flat()) for side in sides):
        raise DataError("The aligner cannot be trained: the text has no words. Check the files.")
    notify(f"Training the aligner on {len(sides[0]):,} pairs.")
    return BidirectionalAligner.train(*sides)


def _read_store(data: Path | None) -> Store | None:
    """The prepared folder that is given, whose pairs have no context."""
    from regard.data.store import Store

    if data is None:
        return None
    store = Store(data)
    store.refuse_document_context("`regard align`")
    return store


def _sides(store: Store | None, pairs: AlignmentPairs | None, part: str) -> tuple[Rows, Rows]:
    if store is not None:
        return store.part(part).sides
    assert pairs is not None
    return pairs.sides


def _aligner_by_head(
    model: Model, sides: tuple[Rows, Rows], options: AttentionOptions
) -> AttentionAligner:
    """An aligner by the attention layer and head of the options."""
    from regard.decoding.attention_maps import AlignmentHead, AttentionAligner, align_by_all_heads

    assert options.layer is not None
    head = None if options.head is None else options.head - 1
    selected = AlignmentHead(not options.naive_att, options.layer - 1, head)
    [alignments] = align_by_all_heads(model, *(side.first(1) for side in sides))
    if selected not in alignments.heads:
        raise ConfigError(
            f"This model has no {selected}; its last head is {alignments.heads[-2]}. "
            "Use a lower --layer or --head."
        )
    return AttentionAligner(model, selected)


def _aligner_by_best_head(
    model: Model,
    store: Store | None,
    pairs: AlignmentPairs | None,
    gold: list[GoldAlignment] | None,
    symmetrization: Symmetrization,
) -> AttentionAligner:
    """An aligner by the layer and head with the lowest error rate against gold or silver links."""
    from regard.decoding.attention_maps import AttentionAligner, align_by_all_heads
    from regard.evaluation.alignment import alignment_error_rates, silver_alignment

    if gold is not None and pairs is not None:
        source, target = (side.first(_SELECTION_PAIRS) for side in pairs.sides)
        gold, to_words = gold[:_SELECTION_PAIRS], pairs.convert_links
    else:
        part = "valid" if store is not None and store.has("valid") else "train"
        source, target = (side.first(_SELECTION_PAIRS) for side in _sides(store, pairs, part))
        gold = [
            silver_alignment(*heads) for heads in _train_aligner(store, pairs).align(source, target)
        ]
        to_words = None
    rates = alignment_error_rates(
        list(align_by_all_heads(model, source, target)), gold, symmetrization, to_words
    )
    return AttentionAligner(model, _report_best(rates, len(gold)))


def _report_best(rates: dict[AlignmentHead, float], pairs: int) -> AlignmentHead:
    """Print the alignment error rate of all heads, and return the best."""
    heads = len({selected.head for selected in rates}) - 1
    columns = ["alignment error rate, %", *(f"head {head + 1}" for head in range(heads)), "mean"]
    rows: dict[str, list[str | float]] = {}
    for selected, rate in rates.items():
        name = f"layer {selected.layer + 1}, {'SHIFT-ATT' if selected.shift else 'NAIVE-ATT'}"
        rows.setdefault(name, [name]).append(100 * rate)
    console.print(table("", columns, list(rows.values())))
    best = min(rates, key=lambda selected: rates[selected])
    notify(f"Lowest alignment error rate on {pairs:,} pairs: {best}.")
    return best


def _print_alignments(
    context: typer.Context,
    aligner: BidirectionalAligner | AttentionAligner,
    pairs: AlignmentPairs,
    symmetrization: Symmetrization,
    gold: list[GoldAlignment] | None,
    drawn_line: int,
    output: OutputOptions,
) -> None:
    """Print the alignment of each line and, with gold alignments, its quality; draw one line."""
    from regard.data.alignments import symmetrize, to_pharaoh
    from regard.evaluation.alignment import score_alignments

    alignments = [
        pairs.convert_links(number, symmetrize(*directions, symmetrization))
        for number, directions in enumerate(aligner.align(*pairs.sides))
    ]
    if gold is not None:
        quality = score_alignments(alignments, gold)
        notify(
            f"Alignment error rate {100 * quality.error_rate:.2f} %, precision "
            f"{100 * quality.precision:.2f} %, recall {100 * quality.recall:.2f} %."
        )

    def draw(path: Path) -> bool:
        from regard import plots

        return plots.plot_alignment(
            path, *pairs.labels(drawn_line), alignments[drawn_line], title=""
        )

    rows = [{"links": [[int(i), int(j)] for i, j in sorted(links)]} for links in alignments]
    lines = "".join(f"{to_pharaoh(links)}\n" for links in alignments)
    output.print_results(context, rows, draw, text=lambda: print(lines, end=""))


def _write_fertilities(
    store: Store, aligner: BidirectionalAligner | AttentionAligner, symmetrization: Symmetrization
) -> None:
    """Write the number of target subwords aligned to each source subword to the store."""
    import numpy as np

    from regard.data.alignments import links_to_source_positions, symmetrize
    from regard.data.fertilities import compute_fertilities, read_fertilities, write_fertilities

    for name in filter(store.has, ("train", "valid")):
        part = store.part(name)
        directions, lengths = aligner.align(*part.sides), part.source.lengths().tolist()
        counts = (
            compute_fertilities(
                np.array(links_to_source_positions(symmetrize(*heads, symmetrization), heads[0])),
                length,
            )
            for heads, length in zip(directions, lengths, strict=True)
        )
        write_fertilities(store.folder, name, counts)
        clipped = np.minimum(read_fertilities(store.folder, name).flat(), 3)
        proportions = np.bincount(clipped, minlength=4) / len(clipped)
        listed = ", ".join(
            f"{name}: {100 * proportion:.1f} %"
            for name, proportion in zip(("0", "1", "2", "3+"), proportions, strict=True)
        )
        notify(f"Wrote fertilities of {name}, {len(part):,} pairs ({listed}).")

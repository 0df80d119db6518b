"""regard prepare: converts text files to a prepared folder of token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import OptionSets, given_settings, refuse_options
from regard.cli.options import Overwrite
from regard.cli.outputs import reserve_outputs
from regard.cli.tables import report_table, table
from regard.config import Tree
from regard.data.file_options import FILE_OPTIONS, select_files
from regard.progress import console, notify, progress_counter
from regard.text.config import TokenizerConfig

if TYPE_CHECKING:
    from regard.data.prepare import CorpusReader, PrepareResult

_FIXED_BY_TOKENIZER = (
    "no effect with --tokenizer-from. Leave it out, or train a new tokenizer without "
    "--tokenizer-from."
)
_MAX_LABELS = 30  # in the table


def prepare(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    files: Annotated[dict[str, Any], OptionSets(lambda: FILE_OPTIONS)],
    tokenizer: TokenizerConfig,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(
            help="Model or prepared folder whose tokenizer is reused; default: train a new one."
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Validate and filter text files, train a tokenizer, and write token ids for training."""
    from regard.data.prepare import prepare as prepare_store
    from regard.text.folder import load_folder_tokenizers

    options = select_files(files)
    inputs = [*options.files, tokenizer_from]
    reserve_outputs(context, {"--out": out}, inputs=inputs, overwrite=overwrite, folder=True)
    if tokenizer_from:
        fixed = {*given_settings(context, TokenizerConfig)} - {"reverse_target"}
        refuse_options(context, fixed, _FIXED_BY_TOKENIZER)
    if not options.two_sides:
        refuse_options(context, ["joint"], f"no effect on {options.title}. Leave it out.")
    reader = options.reader()
    with progress_counter() as progress:
        prepared = prepare_store(
            reader,
            out,
            tokenizer=load_folder_tokenizers(
                tokenizer_from, reverse_target=tokenizer.reverse_target
            )
            if tokenizer_from
            else tokenizer,
            languages=options.languages,
            progress=progress,
        )
    _print_reports(reader.parts, prepared, reader.noun)
    if directions := prepared.description["parts"]["train"].get("directions"):
        _print_directions(directions)
    if reader.marks:
        annotated = prepared.description["parts"]["train"].get("annotated_terms", 0.0)
        notify(f"{annotated:.1%} of the training pairs have annotated terms.")
    if reader.labels:
        _print_labels(reader.parts, prepared.description["parts"], reader.labels)
    _report_vocabulary(prepared, tokenizer, tokenizer_from, reader)
    is_fine_tuning = tokenizer_from is not None and not (tokenizer_from / "store.json").is_file()
    base = f"--from {tokenizer_from}" if is_fine_tuning else reader.content.model
    notify(f"Wrote {out}. Next: regard train {base} --data {out} --out runs/NAME")


def _print_directions(directions: Sequence[Tree]) -> None:
    """Print the size of each direction."""
    rows = [
        (f"{each['source']}-{each['target']}", each["pairs"], each["longest_source"])
        for each in directions
    ]
    console.print(table("", ["direction", "pairs", "longest source"], rows))


def _report_vocabulary(
    prepared: PrepareResult,
    config: TokenizerConfig,
    tokenizer_from: Path | None,
    reader: CorpusReader[Any],
) -> None:
    """Print notices about a small vocabulary, or tags that the tokenizer does not contain."""
    if tokenizer_from is None:
        sizes = prepared.description["vocabulary"]
        for side in ("source",) if config.joint else ("source", "target"):
            if sizes[side] < config.vocab_size:
                name = "joint" if config.joint else side
                notify(
                    f"The {name} vocabulary has only {sizes[side]} subwords: the text is too small "
                    "for more."
                )
        return
    source = prepared.tokenizers.source
    missing = [tag for tag in dict.fromkeys(reader.tags) if not source.has_token(tag)]
    missing += [
        mark for mark in reader.marks if mark not in source.ids_to_tokens(source.encode(mark))
    ]
    for tag in missing:
        notify(f"The tokenizer of {tokenizer_from} has no token {tag}: it is split into subwords.")


def _print_labels(parts: Iterable[str], description: Tree, labels: Sequence[str]) -> None:
    """Print the most frequent labels, and a notice if there are too many to be learned."""
    counts = description["train"]["counts"]
    most_frequent = sorted(labels, key=lambda label: -counts[label])[:_MAX_LABELS]
    rows = [
        (label, *(description[name]["counts"][label] for name in parts)) for label in most_frequent
    ]
    console.print(table("", ["label", *parts], rows))
    if len(labels) > len(most_frequent):
        notify(f"... and {len(labels) - len(most_frequent):,} other labels.")
    if len(labels) > max(_MAX_LABELS, sum(counts.values()) // 4):
        notify(
            "Nearly every example has a different label, so a model cannot learn them. Check the "
            "format: --labelled expects label, tab, text; --column selects the labels of --tagged."
        )


def _print_reports(parts: Iterable[str], prepared: PrepareResult, noun: str) -> None:
    """Print what was filtered out of each corpus, and the size of each split."""
    for name in parts:
        for corpus, report in zip(prepared.corpora[name], prepared.reports[name], strict=True):
            notify(f"{name}: {corpus}")  # a table title would wrap long paths
            console.print(report_table(report, noun))
        sizes = prepared.description["parts"][name]
        counts = [(unit, sizes[unit]) for unit in ("documents", "words", "tokens") if unit in sizes]
        if counts:
            console.print(table("", ["total", "count"], counts))

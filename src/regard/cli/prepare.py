"""regard prepare: text files in, a prepared folder out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.command import Groups, given_settings, refuse_options
from regard.cli.options import Overwrite
from regard.cli.outputs import claim
from regard.cli.screen import table
from regard.config import Tree
from regard.data.file_options import FILE_OPTIONS, select_files
from regard.progress import console, counting, say
from regard.text.config import TokenizerConfig

if TYPE_CHECKING:
    from regard.data.prepare import Prepared

_OF_TOKENIZER = (
    "this comes with the tokenizer that --tokenizer-from names. Leave it out, or learn a new "
    "tokenizer without --tokenizer-from."
)
_LABELS_SHOWN = 30


def prepare(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    files: Annotated[dict[str, Any], Groups(lambda: FILE_OPTIONS)],
    tokenizer: TokenizerConfig,
    tokenizer_from: Annotated[
        Path | None,
        typer.Option(help="A model or prepared folder whose tokenizer is taken, not a new one."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Validate and filter text files, learn their subwords, and store them for training."""
    from regard.data.prepare import prepare as prepare_store
    from regard.text.folder import tokenizers_in

    options = select_files(files)
    inputs = [*options.files, tokenizer_from]
    claim(context, {"--out": out}, inputs=inputs, overwrite=overwrite, folder=True)
    if tokenizer_from:
        refuse_options(context, [*given_settings(context, TokenizerConfig)], _OF_TOKENIZER)
    if not options.two_sides:
        refuse_options(context, ["joint"], f"no effect on {options.title}. Leave it out.")
    reader = options.reader()
    with counting() as progress:
        done = prepare_store(
            reader,
            out,
            tokenizer=tokenizers_in(tokenizer_from) if tokenizer_from else tokenizer,
            languages=options.languages,
            progress=progress,
        )
    _print_reports(reader.parts, done, reader.noun)
    if reader.labels:
        _print_labels(reader.parts, done.description["parts"], reader.labels)
    _say_vocabulary(done, tokenizer, tokenizer_from, reader.tags)
    tuning = tokenizer_from is not None and not (tokenizer_from / "store.json").is_file()
    start = f"--from {tokenizer_from}" if tuning else reader.content.model
    say(f"Prepared in {out}. Next: regard train {start} --data {out} --out runs/NAME")


def _say_vocabulary(
    done: Prepared, config: TokenizerConfig, tokenizer_from: Path | None, tags: Sequence[str]
) -> None:
    """What a person should know of the subwords."""
    if tokenizer_from is None:
        sizes = done.description["vocabulary"]
        for side in ("source",) if config.joint else ("source", "target"):
            if sizes[side] < config.vocab_size:
                name = "joint" if config.joint else side
                say(f"The {name} vocabulary has {sizes[side]} subwords: the text gives no more.")
        return
    for tag in dict.fromkeys(tags):
        if not done.tokenizers.source.knows(tag):
            say(f"The tokenizer of {tokenizer_from} does not know {tag}: it is spelled.")


def _print_labels(parts: Iterable[str], told: Tree, labels: Sequence[str]) -> None:
    """The most frequent labels, and a word if there are too many to be learned."""
    counts = told["train"]["counts"]
    first = sorted(labels, key=lambda label: -counts[label])[:_LABELS_SHOWN]
    rows = [(label, *(told[name]["counts"][label] for name in parts)) for label in first]
    console.print(table("", ["label", *parts], rows))
    if len(labels) > len(first):
        say(f"... and {len(labels) - len(first):,} other labels.")
    if len(labels) > max(_LABELS_SHOWN, sum(counts.values()) // 4):
        say(
            "Nearly everything has a label of its own, so there is nothing to learn from. Are the "
            "labels where they should be? A line of texts is label, tab, text; --column says where "
            "words have theirs."
        )


def _print_reports(parts: Iterable[str], done: Prepared, what: str) -> None:
    """What was found in each corpus, and in all of a part."""
    for name in parts:
        for corpus, report in zip(done.corpora[name], done.reports[name], strict=True):
            rows = [(f"{what} read", report.pairs, "")]
            rows += [(thing, n, f"line {first}") for thing, (n, first) in report.found.items()]
            rows.append((f"{what} kept", report.kept, ""))
            say(f"{name}: {corpus}")  # not as the table's title, which would break a long path
            console.print(table("", ["what", "count", "first at"], rows))
        told = done.description["parts"][name]
        counts = [(one, told[one]) for one in ("documents", "words", "tokens") if one in told]
        if counts:
            console.print(table("", ["in all", "count"], counts))

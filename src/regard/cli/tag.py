"""regard tag: words from standard input, the same with labels to standard output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Fields, one_of, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.piped import given_or_piped
from regard.cli.results import Printed, Results
from regard.errors import DataError
from regard.evaluation.options import TaggedOptions

if TYPE_CHECKING:
    from regard.data.examples import Layout
    from regard.decoding.labeller import Tagger

_AT_ONCE = 1000  # sentences that are read before they are labelled


def tag(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    output: Printed,
    columns: Annotated[TaggedOptions, Fields(only=("column",), panel="Columns")],
    texts: Annotated[
        list[str] | None,
        argument("Sentences, with spaces between words; without one, standard input.", "TEXT"),
    ] = None,
    input: Annotated[
        str,
        typer.Option(
            help="text (a sentence a line), columns (CoNLL-U, or a word a line), or auto: columns "
            "if the first line that is no comment has a tab.",
            callback=one_of(("text", "columns", "auto")),
        ),
    ] = "auto",
) -> None:
    """Give each word a label: of sentences of text, CoNLL-U, or other columns.

    CoNLL-U comes out as it was, with other labels; text comes out as word, tab, label.
    """
    from regard.decoding.labeller import Tagger

    tagger = Tagger.load(model, device=runtime.device)
    given = given_or_piped(texts, _AT_ONCE)
    first = next(given, [])
    read = chain([first], given)
    has_columns = input == "columns" or (input == "auto" and not texts and _has_columns(first))
    if not has_columns:
        refuse_options(context, ["column"], "no effect on text. Leave it out, or use columns.")
    with output.results(context) as results:
        if has_columns:
            _tag_columns(
                tagger, chain.from_iterable(read), columns.column, runtime.batch_size, results
            )
            return
        for lines in read:
            for tagged in tagger.tag(lines, batch_size=runtime.batch_size):
                rows = map("\t".join, zip(tagged.words, tagged.labels, strict=True))
                results.add(tagged, "\n".join([*rows, ""]))


def _tag_columns(
    tagger: Tagger,
    lines: Iterable[str],
    column: str | None,
    batch_size: int | None,
    results: Results,
) -> None:
    """Sentences of a word a line come out as they were, with other labels."""
    for blocks, layout in _blocks(lines, column, tagger.folder.seen.column):
        sentences = [[*_words(block, layout)] for block in blocks]
        found = tagger.tag(sentences, batch_size=batch_size)
        for block, tagged in zip(blocks, found, strict=True):
            results.add(tagged, "\n".join([*_with_labels(block, layout, tagged.labels), ""]))


def _has_columns(lines: Iterable[str]) -> bool:
    """Whether the first line that is neither blank nor a comment has a tab."""
    return "\t" in next((line for line in lines if line and not line.startswith("#")), "")


def _blocks(
    lines: Iterable[str], column: str | None, usual: str | None
) -> Iterator[tuple[list[list[tuple[int, str]]], Layout]]:
    """Many sentences at a time, each as its lines, and how these are laid out."""
    from regard.data.examples import blocks, layout_of

    found = blocks(enumerate(lines, 1))
    some = [*islice(found, _AT_ONCE)]
    if not some:
        return
    layout = layout_of(chain.from_iterable(some), column, usual)
    while some:
        yield some, layout
        some = [*islice(found, _AT_ONCE)]


def _words(block: list[tuple[int, str]], layout: Layout) -> Iterator[str]:
    for number, line in block:
        try:
            if layout.has_word(line):
                yield layout.cells(line)[layout.word]
        except DataError as error:
            raise DataError(f"standard input, line {number}: {error}.") from None


def _with_labels(
    block: list[tuple[int, str]], layout: Layout, labels: Iterable[str]
) -> Iterator[str]:
    own = iter(labels)
    for _, line in block:
        yield layout.with_label(line, next(own)) if layout.has_word(line) else line

"""regard tag: predicts a label for each word (sequence labelling)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Fields, check_choice, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import read_texts
from regard.config import Flag
from regard.errors import DataError
from regard.evaluation.options import TaggedOptions

if TYPE_CHECKING:
    from regard.data.label_formats import Layout
    from regard.decoding.labelling import Tagger

_CHUNK_SIZE = 1000  # sentences


def tag(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    output: FormatOnly,
    columns: Annotated[TaggedOptions, Fields(only=("column",), panel="Columns")],
    texts: Annotated[
        list[str] | None,
        argument("Sentences with spaces between words; default: standard input.", "TEXT"),
    ] = None,
    input_format: Annotated[
        str,
        typer.Option(
            help="Input format: text (one sentence per line), columns (CoNLL-U, or one word per "
            "line), or auto: columns if the first line that is not a comment has a tab.",
            callback=check_choice(("text", "columns", "auto")),
        ),
        Flag(formerly=("--input",)),
    ] = "auto",
) -> None:
    """Predict the label of each word of sentences in plain text, CoNLL-U or other columns.

    Columns are printed with the labels replaced; plain text is printed as word, tab, label.
    """
    from regard.decoding.labelling import Tagger

    tagger = Tagger.load(model, device=runtime.device)
    chunks = read_texts(texts, _CHUNK_SIZE)
    first = next(chunks, [])
    chunks = chain([first], chunks)
    has_columns = input_format == "columns" or (
        input_format == "auto" and not texts and _has_columns(first)
    )
    if not has_columns:
        refuse_options(
            context,
            ["column"],
            "no effect on plain text. Leave it out, or use --input-format columns.",
        )
    with output.results(context) as results:
        if has_columns:
            _tag_columns(
                tagger, chain.from_iterable(chunks), columns.column, runtime.batch_size, results
            )
            return
        for lines in chunks:
            for tagged in tagger.tag(lines, batch_size=runtime.batch_size):
                rows = map("\t".join, zip(tagged.words, tagged.labels, strict=True))
                results.add(tagged, "\n".join([*rows, ""]))


def _tag_columns(
    tagger: Tagger,
    lines: Iterable[str],
    column: str | None,
    batch_size: int | None,
    results: ResultWriter,
) -> None:
    """Tag sentences with one word per line, and print them with their labels replaced."""
    for blocks, layout in _blocks(lines, column, tagger.folder.data_statistics.column):
        sentences = [[*_words(block, layout)] for block in blocks]
        predictions = tagger.tag(sentences, batch_size=batch_size)
        for block, tagged in zip(blocks, predictions, strict=True):
            results.add(tagged, "\n".join([*_with_labels(block, layout, tagged.labels), ""]))


def _has_columns(lines: Iterable[str]) -> bool:
    """Whether the first line that is neither blank nor a comment has a tab."""
    return "\t" in next((line for line in lines if line and not line.startswith("#")), "")


def _blocks(
    lines: Iterable[str], column: str | None, default: str | None
) -> Iterator[tuple[list[list[tuple[int, str]]], Layout]]:
    """Yield chunks of sentences, each a list of numbered lines, and the column layout."""
    from regard.data.label_formats import detect_layout, group_sentences

    sentences = group_sentences(enumerate(lines, 1))
    chunk = [*islice(sentences, _CHUNK_SIZE)]
    if not chunk:
        return
    layout = detect_layout(chain.from_iterable(chunk), column, default)
    while chunk:
        yield chunk, layout
        chunk = [*islice(sentences, _CHUNK_SIZE)]


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
    remaining = iter(labels)
    for _, line in block:
        yield layout.with_label(line, next(remaining)) if layout.has_word(line) else line

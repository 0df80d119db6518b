"""regard tag: predicts a label for each word (sequence labelling)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.command import Fields, check_choice, refuse_options
from regard.cli.options import Model, TorchRuntime, argument
from regard.cli.results import FormatOnly, ResultWriter
from regard.cli.stdin import collected, read_texts, stream_keywords
from regard.config import Flag
from regard.decoding.runtime import ThroughputOptions
from regard.errors import DataError
from regard.evaluation.options import TaggedOptions
from regard.progress import notify

if TYPE_CHECKING:
    from regard.data.label_formats import Layout
    from regard.pipelines.labelling import Tagger
    from regard.pipelines.text_stream import StreamKeywords


def tag(
    context: typer.Context,
    model: Model,
    runtime: TorchRuntime,
    throughput: ThroughputOptions,
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
    from regard.pipelines.labelling import Tagger

    tagger = Tagger.load(model, device=runtime.device)
    stream = stream_keywords(runtime, throughput, tagger.model.device, notify)
    first, lines = _peek(read_texts(texts))
    has_columns = input_format == "columns" or (
        input_format == "auto" and not texts and "\t" in first
    )
    if not has_columns:
        refuse_options(
            context,
            ["column"],
            "no effect on plain text. Leave it out, or use --input-format columns.",
        )
    with output.results(context) as results:
        if has_columns:
            _tag_columns(tagger, lines, columns.column, stream, results)
            return
        for tagged in tagger.tag_iterable(lines, **stream):
            rows = map("\t".join, zip(tagged.words, tagged.labels, strict=True))
            results.add(tagged, "\n".join([*rows, ""]))


def _peek(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The first line that is neither blank nor a comment, and all lines."""
    skipped = []
    for line in lines:
        skipped.append(line)
        if line and not line.startswith("#"):
            return line, chain(skipped, lines)
    return "", iter(skipped)


def _tag_columns(
    tagger: Tagger,
    lines: Iterable[str],
    column: str | None,
    stream: StreamKeywords,
    results: ResultWriter,
) -> None:
    """Tag sentences with one word per line, and print them with their labels replaced."""
    from regard.data.label_formats import detect_layout, group_sentences

    sentences = group_sentences(enumerate(lines, 1))
    first = next(sentences, None)
    if first is None:
        return
    layout = detect_layout(first, column, tagger.folder.data_statistics.column)
    blocks: deque[list[tuple[int, str]]] = deque()  # whose labels are not printed yet
    words = ([*_words(block, layout)] for block in collected(chain([first], sentences), blocks))
    for tagged in tagger.tag_iterable(words, **stream):
        lines_with_labels = _with_labels(blocks.popleft(), layout, tagged.labels)
        results.add(tagged, "\n".join([*lines_with_labels, ""]))


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

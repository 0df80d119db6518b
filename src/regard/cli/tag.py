"""regard tag: words from standard input, the same with labels to standard output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import BatchSize, Column, Device, Model
from regard.errors import ConfigError, DataError
from regard.json_text import dumps

if TYPE_CHECKING:
    from regard.data.examples import Layout
    from regard.decoding.labeller import Tagged

_AT_ONCE = 1000  # sentences that are read before they are labelled


def tag(
    model: Model,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="Sentences, with spaces between words; without one, standard input.",
        ),
    ] = None,
    input: Annotated[
        str,
        typer.Option(
            help="text (a sentence a line), columns (CoNLL-U, or a word a line), or auto: columns "
            "if the first line that is no comment has a tab."
        ),
    ] = "auto",
    column: Column = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each sentence, with probabilities.")
    ] = False,
    batch_size: BatchSize = None,
    device: Device = "auto",
) -> None:
    """Give each word a label: of sentences of text, CoNLL-U, or other columns.

    CoNLL-U comes out as it was, with other labels; text comes out as word, tab, label.
    """
    from regard.cli.piped import portions
    from regard.decoding.labeller import Tagger

    if input not in ("text", "columns", "auto"):
        raise ConfigError(f"There is no input {input!r}. Use text, columns or auto.")
    tagger = Tagger.load(model, device=device)
    given = iter([texts] if texts else portions(_AT_ONCE))
    first = next(given, [])
    read = chain([first], given)
    if input == "columns" or (input == "auto" and not texts and _has_columns(first)):
        usual = tagger.folder.seen.column
        for blocks, layout in _blocks(chain.from_iterable(read), column, usual):
            sentences = [[*_words(block, layout)] for block in blocks]
            found = tagger.tag(sentences, batch_size=batch_size)
            for block, tagged in zip(blocks, found, strict=True):
                _print(tagged, _with_labels(block, layout, tagged.labels), as_json=as_json)
    else:
        for lines in read:
            for tagged in tagger.tag(lines, batch_size=batch_size):
                rows = map("\t".join, zip(tagged.words, tagged.labels, strict=True))
                _print(tagged, rows, as_json=as_json)


def _print(tagged: Tagged, lines: Iterable[str], *, as_json: bool) -> None:
    if as_json:
        print(dumps(asdict(tagged)))
    else:
        print(*lines, "", sep="\n")


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

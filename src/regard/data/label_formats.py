"""File formats of labelled text: words in columns (CoNLL-U, or word and label), texts in TSV.

CoNLL-U has ten tab-separated columns; a blank line ends a sentence. Its multiword tokens (1-2) and
empty nodes (1.1) have no label and are skipped. Other column formats have the word in the first
column, and the label in the last one by default. A labelled text is a line: label, tab, text; or
label, tab, text, tab, text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.line_reader import read_lines
from regard.errors import ConfigError, DataError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NO_LABEL = "_"  # in CoNLL-U
Lines = Iterable[tuple[int, str]]


@dataclass(frozen=True)
class Example:
    """Words with a label each, or one or two texts with one label."""

    line: int  # its first line
    texts: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """The columns of words and labels, from 0."""

    columns: int
    word: int
    label: int

    @staticmethod
    def of(line: str, column: str | None = None, default_column: str | None = None) -> Layout:
        """The layout of a file with this line; `column` is a name or a number from 1.

        It defaults to `default_column` in CoNLL-U, and to the last column elsewhere.
        """
        columns = len(_cells(line))
        is_conllu = columns == len(CONLLU)
        name = column or ((default_column or "upos") if is_conllu else str(columns))
        if is_conllu and name.lower() in CONLLU:
            return Layout(columns, 1, CONLLU.index(name.lower()))
        if not name.isdecimal() or not 1 <= int(name) <= columns:
            names = f"a name ({', '.join(CONLLU)}) or " if is_conllu else ""
            raise ConfigError(
                f"There is no column {name!r}: lines have {columns} columns. "
                f"Use --column with {names}a number from 1 to {columns}."
            )
        return Layout(columns, 1 if is_conllu else 0, int(name) - 1)

    @property
    def is_conllu(self) -> bool:
        """Whether the format is CoNLL-U."""
        return self.columns == len(CONLLU)

    def has_word(self, line: str) -> bool:
        """Whether a line is a word, rather than a comment, multiword token or empty node."""
        if not self.is_conllu:
            return True
        return not line.startswith("#") and _cells(line)[0].isdecimal()

    def cells(self, line: str) -> list[str]:
        """The cells of a line, whose number is checked."""
        cells = _cells(line)
        if len(cells) != self.columns or not all(cells):
            raise DataError(f"has {len(cells)} columns, but needs {self.columns}, none empty")
        return cells

    def with_label(self, line: str, label: str) -> str:
        """The line with its label replaced, or added if the word is the only column."""
        cells = self.cells(line)
        if self.columns == 1:
            return f"{line}\t{label}"
        cells[self.label] = label
        return ("\t" if "\t" in line else " ").join(cells)


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def detect_layout(
    lines: Lines, column: str | None = None, default_column: str | None = None
) -> Layout:
    """Detect the layout from the first line that is neither blank nor a comment.

    Lines that begin with "#" before it are comments, as in CoNLL-U; later ones may be words.
    """
    first = next((line for _, line in lines if line and not line.startswith("#")), None)
    if first is None:
        raise DataError("it has no sentence. Check the path.")
    return Layout.of(first, column, default_column)


def group_sentences(lines: Lines) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each sentence; blank lines separate sentences."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        if line:
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def parse_tagged_example(block: Sequence[tuple[int, str]], layout: Layout) -> Example:
    """Parse a sentence of words and labels; errors name the line."""
    words, labels = [], []
    for number, line in block:
        try:
            if layout.is_conllu and line.startswith("#"):
                continue
            cells = layout.cells(line)
        except DataError as error:
            raise DataError(f"line {number}: {error}") from None
        if layout.has_word(line):
            words.append(cells[layout.word])
            labels.append(cells[layout.label])
    return Example(block[0][0], tuple(words), tuple(labels))


def parse_labelled_example(number: int, line: str) -> Example:
    """Parse a line of a label and one or two texts."""
    label, *texts = (cell.strip() for cell in line.split("\t"))
    if not 1 <= len(texts) <= 2 or not label:
        raise DataError(
            f"line {number}: has {len(texts) + 1} columns, but needs label, tab, text; or label, "
            "tab, text, tab, text"
        )
    return Example(number, tuple(texts), (label,))


def has_header(lines: Lines, header: bool | None = None) -> bool:
    """Whether the first line is a header: as given, or if its label is unique and others repeat."""
    if header is not None:
        return header
    labels = (line.split("\t")[0].strip() for _, line in lines if line)
    first = next(labels, None)
    seen: set[str] = set()
    repeated = False
    for label in labels:
        if label == first:
            return False
        repeated = repeated or label in seen
        seen.add(label)
    return repeated


def read_examples(
    path: Path,
    content: str,
    column: str | None = None,
    header: bool | None = None,
    default_column: str | None = None,
) -> list[Example]:
    """All examples of a test file; errors name the line."""
    lines = [(number, line.strip()) for number, line in enumerate(read_lines(path), 1)]
    try:
        if content == "tagged":
            layout = detect_layout(lines, column, default_column)
            examples = [parse_tagged_example(block, layout) for block in group_sentences(lines)]
        else:
            skip = int(has_header(lines, header))
            examples = [parse_labelled_example(n, line) for n, line in lines[skip:] if line]
    except DataError as error:
        raise DataError(f"{path}, {str(error).removesuffix('.')}.") from None
    examples = [example for example in examples if example.texts]
    if not examples:
        raise DataError(f"{path} is empty: there is nothing to evaluate. Check the path.")
    return examples

"""Labelled text as people keep it: words in columns (CoNLL-U, or word and label), texts in TSV.

CoNLL-U has ten columns, with tabs between them; a blank line ends a sentence. Its multiword tokens
(1-2) and empty nodes (1.1) have no label and are no words here. Any other file of columns has the
word first, and the label last unless another column is named. A labelled text is a line: label,
tab, text; or label, tab, text, tab, text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.corpus import decoded, raw_lines
from regard.errors import ConfigError, DataError

CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NO_LABEL = "_"  # of CoNLL-U
Lines = Iterable[tuple[int, str]]


@dataclass(frozen=True)
class Example:
    """Words with a label each, or one or two texts with one label."""

    line: int  # where it begins
    texts: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """Where a line of columns has its word and its label, counted from 0."""

    columns: int
    word: int
    label: int

    @staticmethod
    def of(line: str, column: str | None = None, usual: str | None = None) -> Layout:
        """Of a file with such a line; the label's column may be named, or numbered from 1.

        If it is not told, labels of CoNLL-U are in the usual one.
        """
        columns = len(_cells(line))
        is_conllu = columns == len(CONLLU)
        name = column or ((usual or "upos") if is_conllu else str(columns))
        if is_conllu and name.lower() in CONLLU:
            return Layout(columns, 1, CONLLU.index(name.lower()))
        if not name.isdecimal() or not 1 <= int(name) <= columns:
            names = f"a name ({', '.join(CONLLU)}) or " if is_conllu else ""
            raise ConfigError(
                f"There is no column {name!r} where lines have {columns} columns. Give {names}"
                f"a number from 1 to {columns} as --column."
            )
        return Layout(columns, 1 if is_conllu else 0, int(name) - 1)

    @property
    def is_conllu(self) -> bool:
        """Whether it is CoNLL-U."""
        return self.columns == len(CONLLU)

    def has_word(self, line: str) -> bool:
        """Whether a line is a word, not a comment, a multiword token or an empty node."""
        if not self.is_conllu:
            return True
        return not line.startswith("#") and _cells(line)[0].isdecimal()

    def cells(self, line: str) -> list[str]:
        """The columns of a line, as many as there should be."""
        found = _cells(line)
        if len(found) != self.columns or not all(found):
            raise DataError(f"has {len(found)} columns, and {self.columns} are needed, none empty")
        return found

    def with_label(self, line: str, label: str) -> str:
        """A line with another label; where there is a word alone, it gets one."""
        cells = self.cells(line)
        if self.columns == 1:
            return f"{line}\t{label}"
        cells[self.label] = label
        return ("\t" if "\t" in line else " ").join(cells)


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def layout_of(lines: Lines, column: str | None = None, usual: str | None = None) -> Layout:
    """The layout of a file, by its first line that is neither blank nor a comment.

    Of columns with comments before them, as CoNLL-U has; a word may begin with "#" elsewhere.
    """
    first = next((line for _, line in lines if line and not line.startswith("#")), None)
    if first is None:
        raise DataError("it has no sentence. Check the path.")
    return Layout.of(first, column, usual)


def blocks(lines: Lines) -> Iterator[list[tuple[int, str]]]:
    """The lines of each sentence, with their numbers; blank lines lie between them."""
    block: list[tuple[int, str]] = []
    for number, line in lines:
        if line:
            block.append((number, line))
        elif block:
            yield block
            block = []
    if block:
        yield block


def tagged_example(block: Sequence[tuple[int, str]], layout: Layout) -> Example:
    """A sentence of words and labels; a line that cannot be read is named."""
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


def labelled_example(number: int, line: str) -> Example:
    """A line of label, text, and perhaps another text."""
    label, *texts = (cell.strip() for cell in line.split("\t"))
    if not 1 <= len(texts) <= 2 or not label:
        raise DataError(
            f"line {number}: has {len(texts) + 1} columns, and needs label, tab, text; or label, "
            "tab, text, tab, text"
        )
    return Example(number, tuple(texts), (label,))


def has_header(lines: Lines, told: bool | None = None) -> bool:
    """Whether the first line is a header: as told, or if only others' labels come again."""
    if told is not None:
        return told
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
    usual_column: str | None = None,
) -> list[Example]:
    """All examples of a test file, as they are; what cannot be read is refused with its line."""
    lines = [(n, decoded(line, path, n).strip()) for n, line in enumerate(raw_lines(path), 1)]
    try:
        if content == "tagged":
            layout = layout_of(lines, column, usual_column)
            found = [tagged_example(block, layout) for block in blocks(lines)]
        else:
            skip = int(has_header(lines, header))
            found = [labelled_example(n, line) for n, line in lines[skip:] if line]
    except DataError as error:
        raise DataError(f"{path}, {str(error).removesuffix('.')}.") from None
    found = [example for example in found if example.texts]
    if not found:
        raise DataError(f"{path} is empty: there is nothing to evaluate. Check the path.")
    return found

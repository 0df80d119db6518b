"""Reader of plain text: lines of documents, which are separated by blank lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.config import Tree
from regard.data.content import TEXT
from regard.data.filters import Report, read_text_lines
from regard.data.prepare import CorpusReader
from regard.data.store import PartWriter
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers


class Line(NamedTuple):
    """A line of text, and whether it is the last of a document."""

    line: int
    text: str
    ends_document: bool


class TextWriter(PartWriter):
    """Writes lines, and the offsets of documents."""

    def __init__(self, folder: Path, part: str, ids: str) -> None:
        super().__init__(folder, part, TEXT, ids)
        self._documents = (folder / f"{part}.documents.offsets").open("wb")
        self._documents.write(np.int64(0).tobytes())
        self.documents = 0

    def append(self, rows: Mapping[str, Sequence[int]]) -> None:
        """Append a line, which ends with a line break, or with EOS at the end of a document."""
        super().append(rows)
        if rows["text"][-1] == SPECIAL.eos:
            self._documents.write(np.int64(self.sides["text"].tokens).tobytes())
            self.documents += 1

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._documents.close()


class TextReader(CorpusReader[Line]):
    """Reads plain text, without filters: the next lines would lose their context."""

    content = TEXT
    noun = "lines"

    def start(self, part: str) -> None:
        """Reset the counts of words and characters."""
        self._words = self._characters = 0

    def examples(self, part: str, corpus: Path, report: Report) -> Iterator[Line]:
        """All lines except blank ones; the end of a file ends a document."""
        pending: tuple[int, str] | None = None  # until it is known whether it ends a document
        for number, text in read_text_lines(corpus, report):
            report.pairs = number
            if not text:
                report.note("blank: ends a document", number)
            if pending is not None:
                yield Line(*pending, ends_document=not text)
            pending = (number, text) if text else None
        if pending is not None:
            yield Line(*pending, ends_document=True)

    def lines(self, example: Line, side: int) -> Iterable[str]:
        """The line, for the source tokenizer."""
        return [] if side else [example.text]

    def encode(self, part: str, example: Line, tokenizers: Tokenizers) -> Tree | None:
        """The ids of the line and its line break or EOS."""
        tokenizer = tokenizers.source
        last = SPECIAL.eos if example.ends_document else tokenizer.line_break
        return {"text": [*tokenizer.encode(example.text), last]}

    def encoded(self, part: str, example: Line, report: Report) -> None:
        """Count words and characters."""
        self._words += len(example.text.split())
        self._characters += len(example.text)

    def writer(self, folder: Path, part: str, ids: str) -> TextWriter:
        """A writer that also stores the offsets of documents."""
        return TextWriter(folder, part, ids)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """The description of a part in `store.json`."""
        return {
            "documents": writer.documents,
            "tokens": writer.sides["text"].tokens,
            "longest_line": writer.sides["text"].longest,
            "digest": writer.digest(),
            "words": self._words,
            "characters": self._characters,
            "corpora": self.corpus_names(part),
        }

"""Running text: lines of documents, which blank lines end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from regard.config import Tree
from regard.data.content import TEXT
from regard.data.doctor import Report, repaired_lines
from regard.data.prepare import CorpusReader
from regard.data.store import PartWriter
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers


class Line(NamedTuple):
    """A line, which may end a document."""

    line: int
    text: str
    ends: bool


class TextWriter(PartWriter):
    """Writes lines, and where documents end."""

    def __init__(self, folder: Path, part: str, ids: str) -> None:
        super().__init__(folder, part, TEXT, ids)
        self._documents = (folder / f"{part}.documents.offsets").open("wb")
        self._documents.write(np.int64(0).tobytes())
        self.documents = 0

    def append(self, rows: Mapping[str, Sequence[int]]) -> None:
        """One more line, with its line break, or with EOS at the end of a document."""
        super().append(rows)
        if rows["text"][-1] == SPECIAL.end:
            self._documents.write(np.int64(self.sides["text"].tokens).tobytes())
            self.documents += 1

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._documents.close()


class TextReader(CorpusReader[Line]):
    """Reads running text; nothing is filtered out, for what follows would lose its context."""

    content = TEXT
    noun = "lines"

    def start(self, part: str) -> None:
        """Words and characters are counted."""
        self._words = self._characters = 0

    def examples(self, part: str, corpus: Path, report: Report) -> Iterator[Line]:
        """All lines but blank ones; a file ends its last document."""
        waiting: tuple[int, str] | None = None  # whether it ends a document is not known yet
        for number, text in repaired_lines(corpus, report):
            report.pairs = number
            if not text:
                report.note("blank: ends a document", number)
            if waiting is not None:
                yield Line(*waiting, ends=not text)
            waiting = (number, text) if text else None
        if waiting is not None:
            yield Line(*waiting, ends=True)

    def lines(self, example: Line, side: int) -> Iterable[str]:
        """The line; there is one tokenizer."""
        return [] if side else [example.text]

    def encode(self, part: str, example: Line, tokenizers: Tokenizers) -> Tree | None:
        """The line and its break."""
        tokenizer = tokenizers.source
        last = SPECIAL.end if example.ends else tokenizer.line_break
        return {"text": [*tokenizer.encode(example.text), last]}

    def encoded(self, part: str, example: Line, report: Report) -> None:
        """Count words and characters."""
        self._words += len(example.text.split())
        self._characters += len(example.text)

    def writer(self, folder: Path, part: str, ids: str) -> TextWriter:
        """One that knows documents."""
        return TextWriter(folder, part, ids)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """What `store.json` says of a part."""
        return {
            "documents": writer.documents,
            "tokens": writer.sides["text"].tokens,
            "longest_line": writer.sides["text"].longest,
            "digest": writer.digest(),
            "words": self._words,
            "characters": self._characters,
            "corpora": self.corpus_names(part),
        }

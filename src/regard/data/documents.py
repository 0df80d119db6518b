"""Reader of parallel corpora of documents: each pair has previous ones of its document as context.

Documents are separated by lines that are blank on both sides, or where an id changes. A pair that
is filtered out also ends the context: sentences on both sides of a gap are not neighbours.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.config import Tree
from regard.data.directions import Direction
from regard.data.document_context import DocumentContext, context_ids
from regard.data.filters import CorpusFilterConfig, Report
from regard.data.line_reader import line_count_mismatch, raw_lines
from regard.data.pair_files import Files, Pair, PairReader
from regard.data.term_annotation import TermAnnotation
from regard.errors import ConfigError
from regard.text.tokenizer import Tokenizers

_CACHED = 1024  # sentences whose ids are kept, since they are context of the next ones


def pair_reader(
    parts: Mapping[str, Sequence[Files]],
    filters: CorpusFilterConfig,
    context: DocumentContext,
    languages: tuple[str | None, str | None] = (None, None),
    *,
    tokenizer_temperature: float = 1.0,
    annotation: TermAnnotation | None = None,
) -> PairReader:
    """The reader of parallel corpora, of sentences or of documents."""
    if not context.size:
        with_ids = [files for corpora in parts.values() for files in corpora if files.document_ids]
        if with_ids:
            raise ConfigError(
                f"{with_ids[0].document_ids}: document ids have no effect without document "
                "context. Set source_context (--source-context) or target_context "
                "(--target-context), or leave them out."
            )
        return PairReader(
            parts,
            filters,
            languages,
            tokenizer_temperature=tokenizer_temperature,
            annotation=annotation,
        )
    return DocumentReader(
        parts,
        filters,
        languages,
        context=context,
        tokenizer_temperature=tokenizer_temperature,
        annotation=annotation,
    )


class DocumentReader(PairReader):
    """Reads parallel documents."""

    blank_lines = "blank: ends a document"

    def __init__(
        self,
        parts: Mapping[str, Sequence[Files]],
        filters: CorpusFilterConfig,
        languages: tuple[str | None, str | None] = (None, None),
        *,
        context: DocumentContext,
        tokenizer_temperature: float = 1.0,
        annotation: TermAnnotation | None = None,
    ) -> None:
        """`filters.skip_duplicates` applies to pairs in the same context."""
        super().__init__(
            parts,
            replace(filters, skip_duplicates=False),
            languages,
            tokenizer_temperature=tokenizer_temperature,
            annotation=annotation,
        )
        self._context = context
        self._skips_duplicates = {"train": filters.skip_duplicates, "valid": False}
        self._starts: dict[Path, NDArray[np.bool_]] = {}  # by file of document ids
        self._encoders: list[Callable[[str], list[int]]] = []  # of source and target

    def start(self, part: str) -> None:
        """Reset the counts, and the detection of duplicates."""
        super().start(part)
        self._examples: defaultdict[Direction | None, set[int]] = defaultdict(set)  # hashes

    def examples(self, part: str, corpus: Files, report: Report) -> Iterator[Pair]:
        """Pairs that pass the filters, with those before them in their document."""
        ids = corpus.document_ids
        starts = None if ids is None else self._document_starts(ids)
        previous: deque[tuple[str, str]] = deque(maxlen=self._context.size)
        last = 0
        for pair in super().examples(part, corpus, report):
            line = pair.line
            if line != last + 1 or (starts is not None and starts[line - 1 : line].any()):
                previous.clear()
            last = line
            example = pair._replace(context=(*previous,))
            previous.append((pair.source, pair.target))
            if self._is_duplicate(part, example):
                report.note("duplicate: skipped", line, previous[-1])
            else:
                yield example
        if ids is not None and starts is not None and len(starts) != report.pairs:
            error = line_count_mismatch(corpus.source, report.pairs, ids, len(starts))
            report.errors.append(error)

    def _is_duplicate(self, part: str, example: Pair) -> bool:
        if not self._skips_duplicates[part]:
            return False
        examples = self._examples[example.corpus.direction]
        key, count = hash((example.source, example.target, example.context)), len(examples)
        examples.add(key)
        return len(examples) == count

    def _document_starts(self, path: Path) -> NDArray[np.bool_]:
        """For each line, whether its id differs from that of the previous line."""
        if path not in self._starts:
            with closing(raw_lines(path)) as lines:
                hashes = (hash(line.rstrip(b"\r").partition(b"\t")[0]) for line in lines)
                ids = np.fromiter(hashes, np.int64)
            self._starts[path] = np.diff(ids, prepend=0) != 0
        return self._starts[path]

    def encode(self, part: str, example: Pair, tokenizers: Tokenizers) -> Tree | None:
        """The ids of both sentences after those of their context."""
        rows = super().encode(part, example, tokenizers)
        if rows is None:
            return None
        if not self._encoders:
            both = tokenizers.source, tokenizers.target
            self._encoders = [lru_cache(_CACHED)(tokenizer.encode) for tokenizer in both]
        limit = self._filters[part].max_tokens
        counts = self._context.counts
        for side, (name, ids) in enumerate([*rows.items()]):
            sentences = [pair[side] for pair in example.context[-counts[side] :]]
            previous = [*map(self._encoders[side], sentences)] if counts[side] else []
            rows[name] = [*context_ids(previous, limit - len(ids)), *ids]
        count = self._counts[part].directions[example.corpus.direction]
        count.longest_source = max(count.longest_source, len(rows["source"]))
        return rows

    @property
    def description(self) -> Tree:
        """The context, in `store.json`."""
        return {
            "document_context": {"source": self._context.source, "target": self._context.target}
        }

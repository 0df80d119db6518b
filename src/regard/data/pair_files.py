"""Parallel files: pairs of lines that belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.config import Tree, as_tree
from regard.data.content import PAIRS, Corpus
from regard.data.doctor import DoctorConfig, Report, examined
from regard.data.prepare import CorpusReader
from regard.data.store import PartWriter, corpus_sizes
from regard.errors import ConfigError, one_message
from regard.text.sentences import sentences
from regard.text.tags import tag_problems, tagged
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Files:
    """A corpus: two files whose lines belong together, and the tag before each source line."""

    source: Path
    target: Path
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.source} and {self.target}" + (f", tagged {self.tag}" if self.tag else "")


class Pair(NamedTuple):
    """A line of both files."""

    line: int
    corpus: Files
    source: str
    target: str


class PairReader(CorpusReader[Pair]):
    """Reads parallel files."""

    content = PAIRS
    noun = "pairs"

    def __init__(self, parts: Mapping[str, Sequence[Files]], filters: DoctorConfig) -> None:
        super().__init__(parts)
        problems = tag_problems(files.tag for corpora in parts.values() for files in corpora)
        if problems:
            raise ConfigError(one_message(problems, "The tags cannot be used"))
        self._filters = {"train": filters, "valid": filters.for_validation()}
        self._seen: dict[str, set[int]] = {}  # pairs of a part, as they are read
        self._several: dict[str, int] = {}  # pairs of several sentences

    def start(self, part: str) -> None:
        """Pairs of a part are compared with those before them, across corpora.

        Whatever their tags: a back-translation that hits upon the genuine source has nothing to add
        to the genuine pair, which is kept since its corpus was named first.
        """
        self._seen[part], self._several[part] = set(), 0

    def examples(self, part: str, corpus: Files, report: Report) -> Iterator[Pair]:
        """Pairs that pass the filters."""
        filters, seen = self._filters[part], self._seen[part]
        pairs = examined(corpus.source, corpus.target, filters, report, seen)
        for line, source, target in pairs:
            yield Pair(line, corpus, source, target)

    def lines(self, example: Pair, side: int) -> Iterable[str]:
        """The source, or the target; tags are no text."""
        return [example.target if side else example.source]

    def encode(self, part: str, example: Pair, tokenizers: Tokenizers) -> Tree | None:
        """Both sentences."""
        rows = {
            "source": tokenizers.source.encode(tagged(example.source, example.corpus.tag)),
            "target": tokenizers.target.encode(example.target),
        }
        return rows if max(map(len, rows.values())) <= self._filters[part].max_tokens else None

    def encoded(self, part: str, example: Pair, report: Report) -> None:
        """Count pairs of several sentences, and those that are trained on."""
        self._several[part] += len(sentences(example.source)) > 1
        if part != "train" and hash((example.source, example.target)) in self._seen["train"]:
            report.note("also in the training text", example.line)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """What `store.json` says of a part."""
        corpora = [
            Corpus(files.source.name, files.target.name, files.tag, report.kept)
            for files, report in zip(self.parts[part], reports, strict=True)
        ]
        found: Counter[str] = Counter()
        for report in reports:
            found.update({what: count for what, (count, _) in report.found.items()})
        return {
            **describe_pairs(writer, corpora),
            "several_sentences": self._several[part] / writer.examples,
            "found": dict(found),
        }

    def nothing_left(self, report: Report) -> str:
        """What to say of files of which no pair is left."""
        if not report.pairs:
            return "they are empty. Check the paths."
        copied = ". A corpus that should be read more often needs no copy: see data.weights"
        return (
            f"none of the {report.pairs} pairs is left{report.counts}"
            f"{copied if 'duplicate: skipped' in report.found else ''}. "
            "Check that the files are the right ones, or loosen the rules"
        )

    @property
    def tags(self) -> list[str]:
        """Those of the training corpora."""
        return [files.tag for files in self.parts["train"] if files.tag]


def describe_pairs(writer: PartWriter, corpora: Iterable[Corpus]) -> Tree:
    """What `store.json` says of the pairs of a part."""
    listed = [as_tree(corpus) for corpus in corpora]
    source, target = writer.sides["source"], writer.sides["target"]
    return {
        "pairs": writer.examples,
        "corpora": listed,
        "source_tokens": source.tokens,
        "target_tokens": target.tokens,
        "longest_source": source.longest,
        "longest_target": target.longest,
        "digest": writer.digest(corpus_sizes({"corpora": listed})),
    }

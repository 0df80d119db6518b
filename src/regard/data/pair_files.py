"""Reader of parallel corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.config import Tree
from regard.data.content import PAIRS, Corpus
from regard.data.filters import CorpusFilterConfig, Report, filter_pairs
from regard.data.language_filter import LanguageFilter
from regard.data.prepare import CorpusReader
from regard.data.store import PartWriter, corpus_sizes
from regard.errors import ConfigError, format_problems
from regard.settings_tree import to_tree
from regard.text.sentences import split_sentences
from regard.text.tags import add_tag, tag_problems
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Files:
    """A parallel corpus: two files, and the tag to add to each source line."""

    source: Path
    target: Path
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.source} and {self.target}" + (f", tagged {self.tag}" if self.tag else "")


class Pair(NamedTuple):
    """A sentence pair and where it is from."""

    line: int
    corpus: Files
    source: str
    target: str


class PairReader(CorpusReader[Pair]):
    """Reads parallel files."""

    content = PAIRS
    noun = "pairs"

    def __init__(
        self,
        parts: Mapping[str, Sequence[Files]],
        filters: CorpusFilterConfig,
        languages: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """`languages` are those of source and target, for the filter of other languages."""
        super().__init__(parts)
        problems = tag_problems(files.tag for corpora in parts.values() for files in corpora)
        if problems:
            raise ConfigError(format_problems(problems, "The tags are invalid"))
        self._filters = {"train": filters, "valid": filters.for_validation()}
        self._language_filters = {
            corpus: LanguageFilter(languages, filters.min_lang_prob)
            for corpus in parts["train"]
            if filters.min_lang_prob
        }
        self._seen: dict[str, set[int]] = {}  # hashes of the pairs of each part
        self._multi_sentence: dict[str, int] = {}  # number of pairs with several source sentences

    def start(self, part: str) -> None:
        """Reset the counts and the duplicate detection, which works across corpora and tags.

        A back-translation equal to the genuine source adds nothing to the genuine pair, which is
        kept if its corpus comes first.
        """
        self._seen[part], self._multi_sentence[part] = set(), 0

    def examples(self, part: str, corpus: Files, report: Report) -> Iterator[Pair]:
        """Pairs that pass the filters."""
        filters, seen = self._filters[part], self._seen[part]
        pairs = filter_pairs(corpus.source, corpus.target, filters, report, seen)
        if part == "train" and corpus in self._language_filters:
            pairs = self._language_filters[corpus].filter(pairs, report)
        for line, source, target in pairs:
            yield Pair(line, corpus, source, target)

    def lines(self, example: Pair, side: int) -> Iterable[str]:
        """The source or target sentence, without its tag."""
        return [example.target if side else example.source]

    def encode(self, part: str, example: Pair, tokenizers: Tokenizers) -> Tree | None:
        """The ids of both sentences."""
        rows = {
            "source": tokenizers.source.encode(add_tag(example.source, example.corpus.tag)),
            "target": tokenizers.target.encode(example.target),
        }
        return rows if max(map(len, rows.values())) <= self._filters[part].max_tokens else None

    def encoded(self, part: str, example: Pair, report: Report) -> None:
        """Count pairs of several sentences, and pairs that are in the training set."""
        self._multi_sentence[part] += len(split_sentences(example.source)) > 1
        if part != "train" and hash((example.source, example.target)) in self._seen["train"]:
            report.note("also in the training text", example.line)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """The description of a part in `store.json`."""
        corpora = [
            Corpus(files.source.name, files.target.name, files.tag, report.kept)
            for files, report in zip(self.parts[part], reports, strict=True)
        ]
        issues: Counter[str] = Counter()
        for report in reports:
            issues.update({issue: count for issue, (count, _) in report.issues.items()})
        return {
            **describe_pairs(writer, corpora),
            "several_sentences": self._multi_sentence[part] / writer.examples,
            "found": dict(issues),
        }

    def nothing_left(self, report: Report) -> str:
        """The error message for a corpus without pairs after filtering."""
        if not report.pairs:
            return "the files are empty. Check the paths."
        hint = ". To read a corpus more often, use data.corpus_weights instead of copies"
        return (
            f"none of the {report.pairs} pairs is left{report.counts}"
            f"{hint if 'duplicate: skipped' in report.issues else ''}. "
            "Check the files, or relax the filters"
        )

    @property
    def tags(self) -> list[str]:
        """The tags of the training corpora."""
        return [files.tag for files in self.parts["train"] if files.tag]


def describe_pairs(writer: PartWriter, corpora: Iterable[Corpus]) -> Tree:
    """The description of the pairs of a part in `store.json`."""
    listed = [to_tree(corpus) for corpus in corpora]
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

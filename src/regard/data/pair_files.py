"""Reader of parallel corpora."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from regard.config import Tree
from regard.data.content import PAIRS, Corpus
from regard.data.directions import Direction, DirectionStatistics
from regard.data.filters import CorpusFilterConfig, Report, filter_pairs
from regard.data.language_filter import LanguageFilter
from regard.data.prepare import CorpusReader
from regard.data.store import PartWriter, corpus_sizes
from regard.data.temperature import temperature_rates
from regard.data.term_annotation import TermAnnotation, skip_marked
from regard.errors import ConfigError, format_problems
from regard.settings_tree import to_tree
from regard.text.sentences import split_sentences
from regard.text.tags import add_tag, language_problems, tag_problems, target_tag
from regard.text.term_marks import TERM_MARKS
from regard.text.tokenizer import Tokenizers


@dataclass(frozen=True)
class Files:
    """A parallel corpus: two files, and what is added to each source line.

    With a direction, this is the target tag; then the corpus's own tag.
    """

    source: Path
    target: Path
    tag: str = ""
    direction: Direction | None = None
    document_ids: Path | None = None  # with document context: a file with an id for each line

    def __str__(self) -> str:
        direction = f", {self.direction}" if self.direction else ""
        tagged = f", tagged {self.tag}" if self.tag else ""
        return f"{self.source} and {self.target}{direction}{tagged}"

    @property
    def reverse(self) -> Files:
        """The corpus of the reverse direction, from the same files."""
        assert self.direction is not None
        reverse = self.direction.reverse
        return Files(self.target, self.source, self.tag, reverse, self.document_ids)

    def tagged(self, source: str) -> str:
        """A source with its tags."""
        target = target_tag(self.direction.target) if self.direction else ""
        return add_tag(add_tag(source, self.tag), target)


class Pair(NamedTuple):
    """A sentence pair and where it is from."""

    line: int
    corpus: Files
    source: str
    target: str
    context: tuple[tuple[str, str], ...] = ()  # previous pairs of its document


class PairReader(CorpusReader[Pair]):
    """Reads parallel files."""

    content = PAIRS
    noun = "pairs"
    blank_lines: ClassVar[str] = "empty: skipped"  # how pairs of blank lines are reported

    def __init__(
        self,
        parts: Mapping[str, Sequence[Files]],
        filters: CorpusFilterConfig,
        languages: tuple[str | None, str | None] = (None, None),
        *,
        tokenizer_temperature: float = 1.0,
        annotation: TermAnnotation | None = None,
    ) -> None:
        """`languages` are those of corpora without a direction.

        `tokenizer_temperature` is that of the languages in the text for the tokenizer.
        """
        super().__init__(parts)
        corpora = [files for corpora in parts.values() for files in corpora]
        codes = [code for files in corpora if files.direction for code in files.direction]
        problems = [*tag_problems(files.tag for files in corpora), *language_problems(codes)]
        if problems:
            raise ConfigError(format_problems(problems, "The tags are invalid"))
        self._filters = {"train": filters, "valid": filters.for_validation()}
        self._language_filters = {
            corpus: LanguageFilter(corpus.direction or languages, filters.min_lang_prob)
            for corpus in parts["train"]
            if filters.min_lang_prob
        }
        self._counts: dict[str, _PartCounts] = {}
        self._balance = LanguageBalance(tokenizer_temperature)
        self._annotation = annotation

    def start(self, part: str) -> None:
        """Reset the counts and the duplicate detection, which works across corpora and tags.

        A back-translation equal to the genuine source adds nothing to the genuine pair, which is
        kept if its corpus comes first. Pairs of different directions are never duplicates.
        """
        self._counts[part] = _PartCounts()

    def examples(self, part: str, corpus: Files, report: Report) -> Iterator[Pair]:
        """Pairs that pass the filters."""
        filters, seen = self._filters[part], self._counts[part].seen[corpus.direction]
        paths = corpus.source, corpus.target
        pairs = filter_pairs(*paths, filters, report, seen, blank=self.blank_lines)
        if part == "train" and corpus in self._language_filters:
            pairs = self._language_filters[corpus].filter(pairs, report)
        if self._annotation is not None:
            pairs = skip_marked(pairs, report)
        for line, source, target in pairs:
            yield Pair(line, corpus, source, target)

    def finish_validation(self) -> None:
        """Compute the weights of languages for the tokenizer."""
        self._balance.finish()

    def validated(self, part: str, example: Pair) -> None:
        """Count the lines of each language, and read terms."""
        direction = example.corpus.direction
        if self._annotation is not None and part == "train":
            self._annotation.add(direction, example.source, example.target)
        if direction and part == "train":
            self._balance.count(direction.source, example.source)
            self._balance.count(direction.target, example.target)

    def lines(self, example: Pair, side: int) -> Iterable[str]:
        """The source or target sentence, without tags; of several languages, with its weight."""
        text, direction = example.target if side else example.source, example.corpus.direction
        return [self._balance.weighted(direction[side], text) if direction else text]

    @property
    def weights_lines(self) -> bool:
        """Whether the corpora have several directions."""
        return any(files.direction for files in self.parts["train"])

    def encode(self, part: str, example: Pair, tokenizers: Tokenizers) -> Tree | None:
        """The ids of both sentences; terms are annotated if there are not too many ids then."""
        counts = self._counts[part]
        target = tokenizers.target.encode(example.target)
        for text in self._sources(part, example):
            source = tokenizers.source.encode(example.corpus.tagged(text))
            if max(len(source), len(target)) <= self._filters[part].max_tokens:
                counts.annotated += text != example.source
                count = counts.directions[example.corpus.direction]
                count.longest_source = max(count.longest_source, len(source))
                return {"source": source, "target": target}
        return None

    def _sources(self, part: str, example: Pair) -> Iterator[str]:
        """The source with annotated terms, if it has any, and the source itself."""
        if self._annotation is not None and part == "train":
            direction, source = example.corpus.direction, example.source
            annotated = self._annotation.annotated(direction, source, example.target)
            if annotated != source:
                yield annotated
        yield example.source

    def encoded(self, part: str, example: Pair, report: Report) -> None:
        """Count pairs, those of several sentences, and those that are in the training set."""
        direction = example.corpus.direction
        count = self._counts[part].directions[direction]
        count.pairs += 1
        count.several_sentences += len(split_sentences(example.source)) > 1
        key = hash((example.source, example.target))
        if part != "train" and key in self._counts["train"].seen[direction]:
            report.note("also in the training text", example.line)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """The description of a part in `store.json`."""
        corpora = [
            Corpus(
                files.source.name,
                files.target.name,
                files.tag,
                report.kept,
                *(files.direction or (None, None)),
            )
            for files, report in zip(self.parts[part], reports, strict=True)
        ]
        counts = self._counts[part]
        issues: Counter[str] = Counter()
        for report in reports:
            issues.update({issue: count for issue, (count, _) in report.issues.items()})
        return {
            **describe_pairs(writer, corpora),
            "several_sentences": counts.several_sentences / writer.examples,
            "found": dict(issues),
            **({"directions": listed} if (listed := counts.describe_directions()) else {}),
            **({"annotated_terms": counts.annotated / writer.examples} if counts.annotated else {}),
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
        """The tags of the training corpora, target tags included."""
        corpora = self.parts["train"]
        target_tags = [target_tag(files.direction.target) for files in corpora if files.direction]
        return [*target_tags, *(files.tag for files in corpora if files.tag)]

    @property
    def marks(self) -> Sequence[str]:
        """The marks of annotated terms, if there are any."""
        return TERM_MARKS if self._annotation is not None else ()


@dataclass
class _DirectionCounts:
    """Counts of the pairs of a direction."""

    pairs: int = 0
    longest_source: int = 0  # subwords
    several_sentences: int = 0  # pairs with several source sentences


class _PartCounts:
    """What is counted while a part is read, by direction; None: sources have no target tag."""

    def __init__(self) -> None:
        self.seen: defaultdict[Direction | None, set[int]] = defaultdict(set)  # hashes of pairs
        self.directions: defaultdict[Direction | None, _DirectionCounts] = defaultdict(
            _DirectionCounts
        )
        self.annotated = 0  # pairs with annotated terms

    @property
    def several_sentences(self) -> int:
        return sum(counts.several_sentences for counts in self.directions.values())

    def describe_directions(self) -> list[Tree]:
        """The statistics of each direction, for `store.json`."""
        return [
            to_tree(
                DirectionStatistics(
                    *direction,
                    counts.pairs,
                    counts.longest_source,
                    counts.several_sentences / counts.pairs,
                )
            )
            for direction, counts in self.directions.items()
            if direction is not None and counts.pairs
        ]


class LanguageBalance:
    """Weights of the lines that a tokenizer is trained on, by temperature sampling of languages."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature
        self._lines: defaultdict[str, set[int]] = defaultdict(set)  # hashes of distinct lines
        self._weights: dict[str, int] = {}

    def count(self, language: str, line: str) -> None:
        """Count a line of a language."""
        self._lines[language].add(hash(line))

    def finish(self) -> None:
        """Compute the weights; the smallest is 10, so that rounding changes little."""
        sizes = [*map(len, self._lines.values())]
        rates = temperature_rates(sizes, self._temperature)
        least = min(rates, default=1.0)
        pairs = zip(self._lines, rates, strict=True)
        self._weights = {language: round(10 * rate / least) for language, rate in pairs}
        self._lines.clear()

    def weighted(self, language: str, line: str) -> str:
        """A line with its weight, for `train_tokenizers`."""
        return f"{line}\t{self._weights[language]}"


def describe_pairs(writer: PartWriter, corpora: Iterable[Corpus]) -> Tree:
    """The description of the pairs of a part in `store.json`."""
    listed = [_describe_corpus(corpus) for corpus in corpora]
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


def _describe_corpus(corpus: Corpus) -> Tree:
    """A corpus in `store.json`; one without a direction has no fields for it."""
    return {name: value for name, value in to_tree(corpus).items() if value is not None}

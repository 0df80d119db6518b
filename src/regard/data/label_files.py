"""Labelled files: sentences of words with a label each, or texts with one label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import Tree
from regard.data.content import LABELLED, TAGGED
from regard.data.doctor import LengthFilterConfig, Report, repaired_lines
from regard.data.examples import (
    CONLLU,
    NO_LABEL,
    Example,
    blocks,
    has_header,
    labelled_example,
    layout_of,
    tagged_example,
)
from regard.data.prepare import CorpusReader
from regard.data.spans import mark_spans, may_follow
from regard.errors import DataError
from regard.text.tokenizer import Tokenizers

LabelledContent = Literal["tagged", "labelled"]


@dataclass(frozen=True)
class LabelFormat:
    """How labelled files are read."""

    content: LabelledContent
    column: str | None = None  # of labels of words; None: UPOS in CoNLL-U, else the last
    header: bool | None = None  # whether labelled texts have one; None: look

    def examples(self, path: Path, report: Report) -> Iterator[Example]:
        """All that can be read of a file; what cannot goes among the errors."""
        if self.content == "tagged":
            yield from self._tagged(path, report)
            return
        header = has_header(repaired_lines(path, Report(), skip_long=True), self.header)
        for number, line in repaired_lines(path, report, skip_long=True):
            if number == 1 and header:
                report.note("header: not read", number)
            elif line:
                try:
                    yield labelled_example(number, line)
                except DataError as error:
                    report.errors.append(f"{path}, {error}.")

    def column_name(self, path: Path) -> str | None:
        """Where CoNLL-U has the labels of words; None if the file is something else."""
        if self.content != "tagged":
            return None
        layout = layout_of(repaired_lines(path, Report()), self.column)
        return CONLLU[layout.label] if layout.is_conllu else None

    def _tagged(self, path: Path, report: Report) -> Iterator[Example]:
        first = Report()
        try:
            layout = layout_of(repaired_lines(path, first), self.column)
        except DataError:
            report.errors += first.errors  # why there is no sentence
            if first.errors:
                return
            raise
        for block in blocks(repaired_lines(path, report)):
            try:
                yield tagged_example(block, layout)
            except DataError as error:
                report.errors.append(f"{path}, {error}.")


class LabelReader(CorpusReader[Example]):
    """Reads labelled files; what is odd is counted, and only what cannot be learned is left out."""

    def __init__(
        self, parts: Mapping[str, Sequence[Path]], format: LabelFormat, filters: LengthFilterConfig
    ) -> None:
        super().__init__(parts)
        self.content = TAGGED if format.content == "tagged" else LABELLED  # type: ignore[misc]
        self._is_tagged = format.content == "tagged"
        self._format, self._filters = format, filters
        self._labels: set[str] = set()  # of the training part
        self._known = False  # whether all of these are known
        self._seen: dict[str, dict[int, int]] = {}  # texts and labels of each part
        self._texts: set[int] = set()  # numbers of texts that examples have
        self._counts: dict[str, int] = {}
        self._most_texts = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training part, in the order of their numbers."""
        return tuple(sorted(self._labels))

    def start(self, part: str) -> None:
        """Examples are compared with those of the same part, and with training examples."""
        self._seen[part] = {}
        self._counts, self._most_texts = dict.fromkeys(self.labels, 0), 0
        if part == "train":
            self._texts = set()

    def examples(self, part: str, corpus: Path, report: Report) -> Iterator[Example]:
        """Examples that pass the filters."""
        for example in self._format.examples(corpus, report):
            report.pairs += 1
            reason = self._reason_to_skip(part, example)
            if reason:
                report.note(f"{reason}: skipped", example.line)
                continue
            self._texts.add(len(example.texts))
            self._note_repetition(part, example, report)
            repaired = self._repaired(example, report)
            if part == "train":
                self._labels |= set(repaired.labels)
            yield repaired
        if not self._is_tagged and len(self._texts) > 1:
            report.errors.append("some lines have one text and some have two. Give one kind.")

    def finish_validation(self) -> None:
        """One label leaves nothing to learn."""
        self._known = True
        self._numbers = {label: number for number, label in enumerate(self.labels, 1)}
        if len(self._labels) < 2:
            raise DataError(
                f"All of {self.parts['train'][0]} has the label {min(self._labels)}: there is "
                "nothing to learn. Check which column the labels are in."
            )

    def lines(self, example: Example, side: int) -> Iterable[str]:
        """The texts; words with spaces between them."""
        if side:
            return []
        return [" ".join(example.texts)] if self._is_tagged else example.texts

    def encode(self, part: str, example: Example, tokenizers: Tokenizers) -> Tree | None:
        """The ids of all words or texts, how many each has, and the labels."""
        tokenizer = tokenizers.source
        encode = tokenizer.encode_words if self._is_tagged else tokenizer.encode_all
        ids = encode(example.texts)
        text = [token for row in ids for token in row]
        if len(text) > self._filters.max_tokens:
            return None
        labels = [self._numbers[label] for label in example.labels]
        return {"text": text, "sizes": [*map(len, ids)], "labels": labels}

    def encoded(self, part: str, example: Example, report: Report) -> None:
        """Count labels, and texts of an example."""
        self._most_texts = max(self._most_texts, len(example.texts))
        for label in example.labels:
            self._counts[label] += 1

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """What `store.json` says of a part."""
        text, sizes, labels = (writer.sides[name] for name in ("text", "sizes", "labels"))
        return {
            "examples": writer.examples,
            "texts": sizes.tokens,
            "most_texts": self._most_texts,
            "labels": labels.tokens,
            "counts": self._counts,
            "tokens": text.tokens,
            "longest": text.longest,
            "digest": writer.digest(),
            "corpora": self.corpus_names(part),
            "column": self._format.column_name(self.parts[part][0]),
        }

    def _reason_to_skip(self, part: str, example: Example) -> str | None:
        if not example.texts or not all(example.texts):
            return "empty"
        if NO_LABEL in example.labels and self._is_tagged:
            return "a word without a label"
        if sum(map(len, example.texts)) > self._filters.max_characters:
            return "too many characters"
        if self._known and part != "train":
            strange = sorted(set(example.labels) - self._labels)
            if strange:
                return f"the label {strange[0]} is not in the training text"
        return None

    def _note_repetition(self, part: str, example: Example, report: Report) -> None:
        text, labels = hash(example.texts), hash(example.labels)
        if part != "train" and text in self._seen["train"]:
            report.note("also in the training text: kept", example.line)
        seen = self._seen[part]
        if text in seen:
            other = "" if seen[text] == labels else ", with another label"
            report.note(f"seen before{other}: kept", example.line)
        seen[text] = labels

    def _repaired(self, example: Example, report: Report) -> Example:
        """An I-x that nothing began begins its span: IOB1 becomes IOB2, which the models know."""
        if not self._is_tagged or not mark_spans(example.labels):
            return example
        labels: list[str] = []
        for label in example.labels:
            legal = may_follow(label, labels[-1] if labels else None)
            labels.append(label if legal else f"B{label[1:]}")
        if (*labels,) == example.labels:
            return example
        report.note("a span that begins with I-: made B-", example.line)
        return Example(example.line, example.texts, tuple(labels))

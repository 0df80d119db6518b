"""Readers of labelled corpora: words with a label each, or texts with one label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from regard.config import Tree
from regard.data.content import LABELLED, TAGGED
from regard.data.filters import LengthFilterConfig, Report, read_text_lines
from regard.data.label_formats import (
    CONLLU,
    NO_LABEL,
    Example,
    detect_layout,
    group_sentences,
    has_header,
    parse_labelled_example,
    parse_tagged_example,
)
from regard.data.prepare import CorpusReader
from regard.data.spans import is_valid_transition, uses_iob_labels
from regard.errors import DataError
from regard.text.tokenizer import Tokenizers

LabelledContent = Literal["tagged", "labelled"]


@dataclass(frozen=True)
class LabelFormat:
    """The format of labelled files."""

    content: LabelledContent
    column: str | None = None  # label column of tagged files; None: UPOS in CoNLL-U, else the last
    header: bool | None = None  # whether labelled texts have a header; None: detect

    def examples(self, path: Path, report: Report) -> Iterator[Example]:
        """The valid examples of a file; others are errors in the report."""
        if self.content == "tagged":
            yield from self._tagged(path, report)
            return
        header = has_header(read_text_lines(path, Report(), skip_long=True), self.header)
        for number, line in read_text_lines(path, report, skip_long=True):
            if number == 1 and header:
                report.note("header: skipped", number)
            elif line:
                try:
                    yield parse_labelled_example(number, line)
                except DataError as error:
                    report.errors.append(f"{path}, {error}.")

    def column_name(self, path: Path) -> str | None:
        """The name of the label column of a CoNLL-U file; None for other files."""
        if self.content != "tagged":
            return None
        layout = detect_layout(read_text_lines(path, Report()), self.column)
        return CONLLU[layout.label] if layout.is_conllu else None

    def _tagged(self, path: Path, report: Report) -> Iterator[Example]:
        layout_report = Report()
        try:
            layout = detect_layout(read_text_lines(path, layout_report), self.column)
        except DataError:
            report.errors += layout_report.errors
            if layout_report.errors:
                return
            raise
        for block in group_sentences(read_text_lines(path, report)):
            try:
                yield parse_tagged_example(block, layout)
            except DataError as error:
                report.errors.append(f"{path}, {error}.")


class LabelReader(CorpusReader[Example]):
    """Reads labelled files; filters out only examples that cannot be used."""

    def __init__(
        self, parts: Mapping[str, Sequence[Path]], format: LabelFormat, filters: LengthFilterConfig
    ) -> None:
        super().__init__(parts)
        self.content = TAGGED if format.content == "tagged" else LABELLED  # type: ignore[misc]
        self._is_tagged = format.content == "tagged"
        self._format, self._filters = format, filters
        self._labels: set[str] = set()  # of the training set
        self._labels_complete = False
        self._seen: dict[str, dict[int, int]] = {}  # hashes of texts and labels of each part
        self._texts: set[int] = set()  # numbers of texts per example
        self._counts: dict[str, int] = {}
        self._max_texts = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the training set, in the order of their ids."""
        return tuple(sorted(self._labels))

    def start(self, part: str) -> None:
        """Reset the counts and the duplicate detection."""
        self._seen[part] = {}
        self._counts, self._max_texts = dict.fromkeys(self.labels, 0), 0
        if part == "train":
            self._texts = set()

    def examples(self, part: str, corpus: Path, report: Report) -> Iterator[Example]:
        """Examples that pass the filters."""
        for example in self._format.examples(corpus, report):
            report.pairs += 1
            reason = self._skip_reason(part, example)
            if reason:
                report.note(f"{reason}: skipped", example.line)
                continue
            self._texts.add(len(example.texts))
            self._note_duplicate(part, example, report)
            corrected = self._to_iob2(example, report)
            if part == "train":
                self._labels |= set(corrected.labels)
            yield corrected
        if not self._is_tagged and len(self._texts) > 1:
            report.errors.append(
                "some lines have one text and others have two. Use the same number in all lines."
            )

    def finish_validation(self) -> None:
        """Require at least two labels."""
        self._labels_complete = True
        self._label_ids = {label: label_id for label_id, label in enumerate(self.labels, 1)}
        if len(self._labels) < 2:
            raise DataError(
                f"{self.parts['train'][0]} has only the label {min(self._labels)}: there is "
                "nothing to learn. Check which column the labels are in."
            )

    def lines(self, example: Example, side: int) -> Iterable[str]:
        """The texts; words are joined by spaces."""
        if side:
            return []
        return [" ".join(example.texts)] if self._is_tagged else example.texts

    def encode(self, part: str, example: Example, tokenizers: Tokenizers) -> Tree | None:
        """The ids of all words or texts, the number of ids of each, and the labels."""
        tokenizer = tokenizers.source
        encode = tokenizer.encode_words if self._is_tagged else tokenizer.encode_all
        ids = encode(example.texts)
        text = [token for row in ids for token in row]
        if len(text) > self._filters.max_tokens:
            return None
        labels = [self._label_ids[label] for label in example.labels]
        return {"text": text, "sizes": [*map(len, ids)], "labels": labels}

    def encoded(self, part: str, example: Example, report: Report) -> None:
        """Count labels and texts."""
        self._max_texts = max(self._max_texts, len(example.texts))
        for label in example.labels:
            self._counts[label] += 1

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """The description of a part in `store.json`."""
        text, sizes, labels = (writer.sides[name] for name in ("text", "sizes", "labels"))
        return {
            "examples": writer.examples,
            "texts": sizes.tokens,
            "most_texts": self._max_texts,
            "labels": labels.tokens,
            "counts": self._counts,
            "tokens": text.tokens,
            "longest": text.longest,
            "digest": writer.digest(),
            "corpora": self.corpus_names(part),
            "column": self._format.column_name(self.parts[part][0]),
        }

    def _skip_reason(self, part: str, example: Example) -> str | None:
        if not example.texts or not all(example.texts):
            return "empty"
        if NO_LABEL in example.labels and self._is_tagged:
            return "a word without a label"
        if sum(map(len, example.texts)) > self._filters.max_characters:
            return "too many characters"
        if self._labels_complete and part != "train":
            unseen = sorted(set(example.labels) - self._labels)
            if unseen:
                return f"the label {unseen[0]} is not in the training text"
        return None

    def _note_duplicate(self, part: str, example: Example, report: Report) -> None:
        text, labels = hash(example.texts), hash(example.labels)
        if part != "train" and text in self._seen["train"]:
            report.note("also in the training text: kept", example.line)
        seen = self._seen[part]
        if text in seen:
            other = "" if seen[text] == labels else ", with another label"
            report.note(f"seen before{other}: kept", example.line)
        seen[text] = labels

    def _to_iob2(self, example: Example, report: Report) -> Example:
        """Convert IOB1 to IOB2: an I-x that begins a span becomes B-x."""
        if not self._is_tagged or not uses_iob_labels(example.labels):
            return example
        labels: list[str] = []
        for label in example.labels:
            valid = is_valid_transition(label, labels[-1] if labels else None)
            labels.append(label if valid else f"B{label[1:]}")
        if (*labels,) == example.labels:
            return example
        report.note("a span that begins with I-: made B-", example.line)
        return Example(example.line, example.texts, tuple(labels))

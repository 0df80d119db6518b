"""The doctor looks at every labelled sentence or text before anything is trained.

What is odd is counted; only what cannot be learned from is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from regard.data.doctor import DoctorConfig, Report, repaired_lines
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
from regard.data.spans import first_illegal, mark_spans, may_follow
from regard.errors import DataError

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


@dataclass
class LabelDoctor:
    """Remembers what it saw from file to file, the training part first."""

    format: LabelFormat
    rules: DoctorConfig
    labels: tuple[str, ...] | None = None  # those of the training part, once they are known
    _training: dict[int, int] = field(default_factory=dict)  # texts and labels seen before
    _validation: dict[int, int] = field(default_factory=dict)
    _texts: set[int] = field(default_factory=set)  # how many an example has

    def examined(self, path: Path, report: Report, *, training: bool) -> Iterator[Example]:
        """The examples worth keeping."""
        for example in self.format.examples(path, report):
            report.pairs += 1
            reason = self._reason_to_skip(example, training=training)
            if reason:
                report.note(f"{reason}: skipped", example.line)
                continue
            self._texts.add(len(example.texts))
            self._note_repetition(example, report, training=training)
            yield self._repaired(example, report)
        if self.format.content == "labelled" and len(self._texts) > 1:
            report.errors.append("some lines have one text and some have two. Give one kind.")

    def _reason_to_skip(self, example: Example, *, training: bool) -> str | None:
        if not example.texts or not all(example.texts):
            return "empty"
        if NO_LABEL in example.labels and self.format.content == "tagged":
            return "a word without a label"
        if sum(map(len, example.texts)) > self.rules.max_characters:
            return "too many characters"
        if self.labels is not None and not training:
            strange = sorted(set(example.labels) - set(self.labels))
            if strange:
                return f"the label {strange[0]} is not in the training text"
        return None

    def _note_repetition(self, example: Example, report: Report, *, training: bool) -> None:
        text, labels = hash(example.texts), hash(example.labels)
        if not training and text in self._training:
            report.note("also in the training text: kept", example.line)
        seen = self._training if training else self._validation
        if text in seen:
            other = "" if seen[text] == labels else ", with another label"
            report.note(f"seen before{other}: kept", example.line)
        seen[text] = labels

    def _repaired(self, example: Example, report: Report) -> Example:
        """An I-x that nothing began begins its span: IOB1 becomes IOB2, which the models know."""
        if self.format.content != "tagged" or not mark_spans(example.labels):
            return example
        if first_illegal(example.labels) is None:
            return example
        labels: list[str] = []
        for label in example.labels:
            legal = may_follow(label, labels[-1] if labels else None)
            labels.append(label if legal else f"B{label[1:]}")
        report.note("a span that begins with I-: made B-", example.line)
        return Example(example.line, example.texts, tuple(labels))

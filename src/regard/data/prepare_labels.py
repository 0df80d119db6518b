"""Words or texts with labels in, a prepared folder out: doctor, tokenizer, store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from regard.config import Tree
from regard.data.doctor import DoctorConfig, Report
from regard.data.examples import Example
from regard.data.label_doctor import LabelDoctor, LabelFormat
from regard.data.label_store import LabelWriter
from regard.data.prepare import (
    Prepared,
    Progress,
    learned_or_given,
    refuse_foreign_folder,
    refuse_unusable,
    write_store,
)
from regard.errors import DataError
from regard.text.config import TokenizerConfig
from regard.text.tokenizer import Tokenizers

Parts = Mapping[str, Sequence[Path]]


def prepare_labels(
    parts: Parts,
    out: Path,
    *,
    format: LabelFormat,
    tokenizer: TokenizerConfig | Tokenizers,
    doctor: DoctorConfig,
    language: str | None = None,
    progress: Progress = lambda task, lines: None,
) -> Prepared:
    """Examine all files, learn subwords on "train", and write the store to `out`.

    A tokenizer that is given instead of its settings is taken as it is.
    """
    refuse_foreign_folder(out)
    work = _Work(parts, format, doctor, progress)
    labels = work.examine()
    tokenizers = learned_or_given(tokenizer, work.lines)
    description = write_store(
        out,
        tokenizers,
        lambda folder: work.write(folder, tokenizers, labels),
        (language, language),
        format.content,
        labels,
    )
    return Prepared(tokenizers, work.reports, description)


class _Work:
    """The files of all parts, gone through as often as needed."""

    def __init__(
        self, parts: Parts, format: LabelFormat, rules: DoctorConfig, progress: Progress
    ) -> None:
        self._parts, self._format, self._rules = parts, format, rules
        self._progress = progress
        self._labels: tuple[str, ...] | None = None
        self.reports: dict[str, list[Report]] = {}

    def examine(self) -> tuple[str, ...]:
        """The names of all labels, once nothing speaks against any file."""
        labels: set[str] = set()
        for name, report, example in self._examined("examining"):
            report.kept += 1
            if name == "train":
                labels |= set(example.labels)
        refuse_unusable(self._parts, self.reports)
        if len(labels) < 2:
            raise DataError(
                f"All of {self._parts['train'][0]} has the label {min(labels)}: there is nothing "
                "to learn. Check which column the labels are in."
            )
        self._labels = tuple(sorted(labels))
        return self._labels

    def lines(self) -> Iterator[str]:
        """The training text, to learn subwords from."""
        for name, _, example in self._examined("learning"):
            if name == "train":
                yield from [" ".join(example.texts)] if self._is_tagged else example.texts

    def write(self, folder: Path, tokenizers: Tokenizers, labels: Sequence[str]) -> Tree:
        """All parts, and what is to be said of them."""
        encode = tokenizers.source.encode_words if self._is_tagged else tokenizers.source.encode_all
        with ExitStack() as stack:
            writers = {
                name: stack.enter_context(LabelWriter(folder, name, tokenizers, labels))
                for name in self._parts
            }
            for name, report, example in self._examined("encoding"):
                ids = encode(example.texts)
                if sum(map(len, ids)) > self._rules.max_tokens:
                    report.note("too many subwords: skipped", example.line)
                    continue
                writers[name].append(ids, example.labels)
                report.kept += 1
        refuse_unusable(self._parts, self.reports)
        return {
            name: {**writer.description(), **self._described(self._parts[name])}
            for name, writer in writers.items()
        }

    def _described(self, files: Sequence[Path]) -> Tree:
        """Names without their folders, which are nobody's business, and where labels were."""
        column = self._format.column_name(files[0])
        return {"corpora": [path.name for path in files], "column": column}

    @property
    def _is_tagged(self) -> bool:
        return self._format.content == "tagged"

    def _examined(self, task: str) -> Iterator[tuple[str, Report, Example]]:
        """All examples worth keeping; reports begin anew."""
        doctor = LabelDoctor(self._format, self._rules, self._labels)
        self.reports = {name: [Report() for _ in files] for name, files in self._parts.items()}
        for name, files in self._parts.items():
            for path, report in zip(files, self.reports[name], strict=True):
                try:
                    for example in doctor.examined(path, report, training=name == "train"):
                        self._progress(f"{task} {name}", example.line)
                        yield name, report, example
                except DataError as error:  # this file cannot be read, but the next ones may be
                    report.errors.append(str(error))

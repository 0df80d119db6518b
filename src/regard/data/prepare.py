"""Preparation of text files: validation, tokenizer training and encoding into a store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from regard.config import Tree
from regard.data.content import StoreContent, dtype_for, with_checksums
from regard.data.filters import Report
from regard.data.store import PartWriter, describe_store
from regard.errors import ConfigError, DataError, StorageError, format_problems
from regard.files import atomic_folder, is_temporary_path, write_json
from regard.text.config import TokenizerConfig
from regard.text.imported import IMPORTED_TOKENIZER_FILES
from regard.text.tokenizer import Tokenizers, train_tokenizers

Progress = Callable[[str, int], None]
_STORE_FILES = ("store.json", ".ids", ".offsets", ".fertilities", ".distributions", ".model")


class Example(Protocol):
    """An example read from a file."""

    @property
    def line(self) -> int:
        """The number of its first line."""
        ...


E = TypeVar("E", bound=Example)


class CorpusReader(ABC, Generic[E]):
    """Reads, filters and encodes the files of a task.

    Files are read three times: for validation, tokenizer training and encoding.
    """

    content: ClassVar[StoreContent]
    noun: ClassVar[str] = "examples"  # for reports

    def __init__(self, parts: Mapping[str, Sequence[Any]]) -> None:
        """`parts` are the corpora of "train" and optionally "valid", usually paths."""
        self.parts = parts

    def start(self, part: str) -> None:
        """Called before the corpora of a part are read, in each pass."""

    @abstractmethod
    def examples(self, part: str, corpus: Any, report: Report) -> Iterator[E]:
        """The examples of a corpus that pass the filters; others are counted in the report."""

    def validated(self, part: str, example: E) -> None:
        """Called for each example in the first pass."""

    def finish_validation(self) -> None:
        """Called once all files are validated."""

    @abstractmethod
    def lines(self, example: E, side: int) -> Iterable[str]:
        """The text to train the tokenizer of the source (0) or target (1) on."""

    @property
    def weights_lines(self) -> bool:
        """Whether `lines` end with a tab and a weight."""
        return False

    @abstractmethod
    def encode(self, part: str, example: E, tokenizers: Tokenizers) -> Tree | None:
        """The row of each side; None if there are too many tokens."""

    def encoded(self, part: str, example: E, report: Report) -> None:
        """Called for each example that was stored."""

    def writer(self, folder: Path, part: str, ids: str) -> PartWriter:
        """The writer of a part."""
        return PartWriter(folder, part, self.content, ids)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """The description of a part in `store.json`."""
        corpora = self.corpus_names(part)
        return {"examples": writer.examples, "digest": writer.digest(), "corpora": corpora}

    def corpus_names(self, part: str) -> list[str]:
        """The file names of the corpora, without folders."""
        return [path.name for path in self.parts[part]]

    def test_examples(self, corpus: Any) -> list[E]:
        """All examples of a test corpus, with the same validation as in `prepare`."""
        report, part = Report(), "train"
        self.start(part)
        examples = [*self.examples(part, corpus, report)]
        report.kept = len(examples)
        if problem := self.problem(corpus, report):
            raise DataError(problem)
        return examples

    def problem(self, corpus: Any, report: Report) -> str | None:
        """The error message for a corpus that cannot be used, or None."""
        problems = report.errors or ([] if report.kept else [self.nothing_left(report)])
        return format_problems(problems, f"{corpus} cannot be used") if problems else None

    def nothing_left(self, report: Report) -> str:
        """The error message for a corpus without examples after filtering."""
        return f"no example is left{report.counts}. Check the path."

    @property
    def description(self) -> Tree:
        """Further fields of `store.json`."""
        return {}

    @property
    def tags(self) -> list[str]:
        """Source tags, which become single tokens."""
        return []

    @property
    def marks(self) -> Sequence[str]:
        """Marks inside of sources, which become single tokens."""
        return ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The label names, if the task has labels."""
        return ()


@dataclass(frozen=True)
class PrepareResult:
    """The result of `prepare`."""

    out: Path
    tokenizers: Tokenizers
    reports: dict[str, list[Report]]  # of each part, one for each corpus
    description: Tree
    corpora: Mapping[str, Sequence[Any]]  # of each part


def prepare(
    reader: CorpusReader[Any],
    out: Path,
    *,
    tokenizer: TokenizerConfig | Tokenizers,
    languages: tuple[str | None, str | None] = (None, None),
    progress: Progress = lambda task, lines: None,
) -> PrepareResult:
    """Validate all files, train the tokenizers on "train", and write the store to `out`.

    Existing tokenizers may be given instead of settings.
    """
    verify_output_folder(out)
    settings = tokenizer if isinstance(tokenizer, TokenizerConfig) else tokenizer.config
    if settings.reverse_target and not any(
        side.values == "target" for side in reader.content.sides
    ):
        raise ConfigError(
            f"reverse_target (--reverse-target) has no effect on {reader.content.title}, which has "
            "no target. Leave it out."
        )
    if reader.marks and settings.kind == "word":
        raise ConfigError(
            "annotate_terms (--annotate-terms) needs marks inside of words, but tokens of a word "
            "tokenizer are whole words. Use --tokenizer unigram, bpe or char."
        )
    passes = _Passes(reader, progress)
    passes.validate()
    if isinstance(tokenizer, TokenizerConfig):
        tokenizer = train_tokenizers(
            lambda: passes.lines(0),
            lambda: passes.lines(1),
            tokenizer,
            reader.tags,
            marks=reader.marks,
            weighted=reader.weights_lines,
        )
    with atomic_folder(out) as folder:
        for file, model in tokenizer.files().items():
            (folder / file).write_bytes(model)
        parts = {part: passes.write(folder, part, tokenizer) for part in reader.parts}
        named_languages = dict(zip(("source", "target"), languages, strict=True))
        description = describe_store(
            parts, tokenizer, named_languages, reader.content.name, reader.labels
        )
        description |= reader.description
        write_json(folder / "store.json", with_checksums(description, folder))
    return PrepareResult(out, tokenizer, passes.reports, description, reader.parts)


class _Passes:
    """Passes over all files; each has new reports."""

    def __init__(self, reader: CorpusReader[Any], progress: Progress) -> None:
        self._reader, self._progress = reader, progress
        self.reports: dict[str, list[Report]] = {}

    def validate(self) -> None:
        """Validate all files first, so that all errors are reported at once."""
        for part in self._reader.parts:
            for report, example in self._read(part, "validating"):
                report.kept += 1
                self._reader.validated(part, example)
        self._raise_problems(self._reader.parts)
        self._reader.finish_validation()

    def lines(self, side: int) -> Iterator[str]:
        """The training text of one side."""
        for _, example in self._read("train"):
            yield from self._reader.lines(example, side)

    def write(self, folder: Path, part: str, tokenizers: Tokenizers) -> Tree:
        """Encode and write a part."""
        reader = self._reader
        with reader.writer(folder, part, dtype_for(tokenizers)) as writer:
            for report, example in self._read(part, "encoding"):
                rows = reader.encode(part, example, tokenizers)
                if rows is None:
                    report.note("too many subwords: skipped", example.line)
                    continue
                writer.append(rows)
                report.kept += 1
                reader.encoded(part, example, report)
        self._raise_problems([part])
        return reader.describe(part, writer, self.reports[part])

    def _read(self, part: str, task: str = "") -> Iterator[tuple[Report, Any]]:
        corpora = self._reader.parts[part]
        reports = self.reports[part] = [Report() for _ in corpora]
        self._reader.start(part)
        for number, (corpus, report) in enumerate(zip(corpora, reports, strict=True), 1):
            name = f"{part} {number}" if len(corpora) > 1 else part
            try:
                for example in self._reader.examples(part, corpus, report):
                    if task:
                        self._progress(f"{task} {name}", example.line)
                    yield report, example
            except DataError as error:  # continue with the next file
                report.errors.append(str(error))

    def _raise_problems(self, parts: Iterable[str]) -> None:
        problems = [
            self._reader.problem(corpus, report)
            for part in parts
            for corpus, report in zip(self._reader.parts[part], self.reports[part], strict=True)
        ]
        message = "\n".join(filter(None, problems))
        if message:
            raise DataError(message)


def verify_output_folder(out: Path) -> None:
    """Raise an error unless a folder is new, empty or a store, since it will be replaced.

    An incomplete store is recognized by some of its files.
    """
    paths = (
        sorted(path for path in out.iterdir() if not is_temporary_path(path))
        if out.is_dir()
        else []
    )
    names = [path.name for path in paths]
    other = [
        name for name in names if not name.endswith((*_STORE_FILES, *IMPORTED_TOKENIZER_FILES))
    ]
    known = any(name.endswith(("store.json", ".ids")) for name in names)
    if (out.exists() and not out.is_dir()) or other or (names and not known):
        example = f" (it holds {other[0]})" if other else ""
        raise StorageError(
            f"{out} exists and is not a prepared folder{example}; nothing was changed. "
            "Choose another --out."
        )
    if Path.cwd().is_relative_to(out.resolve()):
        raise StorageError(
            f"{out} is the current working directory and cannot be replaced. Choose another --out."
        )

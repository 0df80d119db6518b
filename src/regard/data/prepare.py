"""Text files in, a prepared folder out: filters, tokenizers, store. The same for every task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from regard.config import Tree
from regard.data.content import StoreContent, dtype_for, with_checksums
from regard.data.doctor import Report
from regard.data.store import PartWriter, describe
from regard.errors import DataError, StorageError, one_message
from regard.files import is_leftover, whole_folder, write_json
from regard.text.config import TokenizerConfig
from regard.text.foreign import FOREIGN_FILES
from regard.text.tokenizer import Tokenizers, train_tokenizers

Progress = Callable[[str, int], None]
_OURS = ("store.json", ".ids", ".offsets", ".fertilities", ".distributions", ".model")


class Example(Protocol):
    """Something read from a file."""

    @property
    def line(self) -> int:
        """Where it begins."""
        ...


E = TypeVar("E", bound=Example)


class CorpusReader(ABC, Generic[E]):
    """How the files of a task are read, filtered and encoded.

    Files are read three times: to validate them, to learn a tokenizer, and to encode them.
    """

    content: ClassVar[StoreContent]
    noun: ClassVar[str] = "examples"  # what is counted in reports

    def __init__(self, parts: Mapping[str, Sequence[Any]]) -> None:
        """`parts` are the corpora of "train" and perhaps "valid": paths, or what the task has."""
        self.parts = parts

    def start(self, part: str) -> None:
        """Before the corpora of a part are read, each time."""

    @abstractmethod
    def examples(self, part: str, corpus: Any, report: Report) -> Iterator[E]:
        """The examples of a corpus that pass the filters; what does not goes into the report."""

    def finish_validation(self) -> None:
        """After all files were read once, and none of them was refused."""

    @abstractmethod
    def lines(self, example: E, side: int) -> Iterable[str]:
        """The text from which the tokenizer of the source (0) or target (1) is learned."""

    @abstractmethod
    def encode(self, part: str, example: E, tokenizers: Tokenizers) -> Tree | None:
        """The row of each side; None: there are too many tokens."""

    def encoded(self, part: str, example: E, report: Report) -> None:
        """An example that was stored."""

    def writer(self, folder: Path, part: str, ids: str) -> PartWriter:
        """What writes a part."""
        return PartWriter(folder, part, self.content, ids)

    def describe(self, part: str, writer: Any, reports: Sequence[Report]) -> Tree:
        """What `store.json` says of a part."""
        corpora = self.corpus_names(part)
        return {"examples": writer.examples, "digest": writer.digest(), "corpora": corpora}

    def corpus_names(self, part: str) -> list[str]:
        """The names of files, without their folders."""
        return [path.name for path in self.parts[part]]

    def test_examples(self, corpus: Any) -> list[E]:
        """All examples of a corpus that is evaluated; what `prepare` refuses is refused."""
        report, part = Report(), "train"
        self.start(part)
        examples = [*self.examples(part, corpus, report)]
        report.kept = len(examples)
        if problem := self.problem(corpus, report):
            raise DataError(problem)
        return examples

    def problem(self, corpus: Any, report: Report) -> str | None:
        """Why a corpus cannot be used, if it cannot."""
        problems = report.errors or ([] if report.kept else [self.nothing_left(report)])
        return one_message(problems, f"{corpus} cannot be used") if problems else None

    def nothing_left(self, report: Report) -> str:
        """What to say of a corpus of which no example is left."""
        return f"it has no text that is left{report.counts}. Check the path."

    @property
    def tags(self) -> list[str]:
        """Tags of source lines, which are one token each."""
        return []

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of labels, if there are any."""
        return ()


@dataclass(frozen=True)
class Prepared:
    """What was prepared, for the person who asked."""

    out: Path
    tokenizers: Tokenizers
    reports: dict[str, list[Report]]  # of each part, one for each corpus
    description: Tree
    corpora: Mapping[str, Sequence[Any]]  # of each part, as they were given


def prepare(
    reader: CorpusReader[Any],
    out: Path,
    *,
    tokenizer: TokenizerConfig | Tokenizers,
    languages: tuple[str | None, str | None] = (None, None),
    progress: Progress = lambda task, lines: None,
) -> Prepared:
    """Validate all files, learn the tokenizers on "train", and write the store to `out`.

    Tokenizers that are given instead of their settings are used as they are.
    """
    refuse_foreign_folder(out)
    passes = _Passes(reader, progress)
    passes.validate()
    if isinstance(tokenizer, TokenizerConfig):
        tokenizer = train_tokenizers(
            lambda: passes.lines(0), lambda: passes.lines(1), tokenizer, reader.tags
        )
    with whole_folder(out) as folder:
        for file, model in tokenizer.files().items():
            (folder / file).write_bytes(model)
        parts = {part: passes.write(folder, part, tokenizer) for part in reader.parts}
        named = dict(zip(("source", "target"), languages, strict=True))
        description = describe(parts, tokenizer, named, reader.content.name, reader.labels)
        write_json(folder / "store.json", with_checksums(description, folder))
    return Prepared(out, tokenizer, passes.reports, description, reader.parts)


class _Passes:
    """Passes over all files; reports begin anew in each."""

    def __init__(self, reader: CorpusReader[Any], progress: Progress) -> None:
        self._reader, self._progress = reader, progress
        self.reports: dict[str, list[Report]] = {}

    def validate(self) -> None:
        """All of all files before anything else, so that errors come first and all at once."""
        for part in self._reader.parts:
            for report, _ in self._read(part, "examining"):
                report.kept += 1
        self._refuse(self._reader.parts)
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
        self._refuse([part])
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
            except DataError as error:  # this file cannot be read, but the next ones may be
                report.errors.append(str(error))

    def _refuse(self, parts: Iterable[str]) -> None:
        problems = [
            self._reader.problem(corpus, report)
            for part in parts
            for corpus, report in zip(self._reader.parts[part], self.reports[part], strict=True)
        ]
        message = "\n".join(filter(None, problems))
        if message:
            raise DataError(message)


def refuse_foreign_folder(out: Path) -> None:
    """Since the whole folder is replaced, nothing may be in it but what was prepared before.

    It may be incomplete: some of its files are enough to recognise it.
    """
    paths = sorted(path for path in out.iterdir() if not is_leftover(path)) if out.is_dir() else []
    names = [path.name for path in paths]
    foreign = [name for name in names if not name.endswith((*_OURS, *FOREIGN_FILES))]
    known = any(name.endswith(("store.json", ".ids")) for name in names)
    if (out.exists() and not out.is_dir()) or foreign or (names and not known):
        example = f" (it holds {foreign[0]})" if foreign else ""
        raise StorageError(
            f"{out} exists and is not a prepared folder{example}, so it is left as it is. "
            "Choose another --out."
        )
    if Path.cwd().is_relative_to(out.resolve()):
        raise StorageError(
            f"{out} is the folder that this runs in, and cannot be replaced. Choose another --out."
        )

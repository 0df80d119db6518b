"""The files of each task as options of `regard prepare`; importing them costs nothing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from regard.config import Doc
from regard.data.doctor import DoctorConfig, LengthFilterConfig
from regard.option_sets import OptionSet, select

if TYPE_CHECKING:
    from regard.data.prepare import CorpusReader


@dataclass(frozen=True)
class FileOptions(OptionSet):
    """The files of a task."""

    two_sides: ClassVar[bool] = False  # which may have a joint vocabulary
    valid: ClassVar[tuple[str, ...]] = ()  # the fields with validation files
    source_lang: Annotated[str | None, Doc("language code, kept with models")] = None

    @abstractmethod
    def reader(self) -> CorpusReader[Any]:
        """What reads the files."""

    def parts(self) -> dict[str, list[Path]]:
        """The training files, and the validation file if there is one."""
        (name,) = self.valid
        valid = getattr(self, name)
        return {"train": [*getattr(self, self.main)]} | ({"valid": [valid]} if valid else {})

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of source and target, if they are named."""
        return self.source_lang, self.source_lang

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        return [path for part in self.parts().values() for path in part]


@dataclass(frozen=True)
class ParallelFiles(DoctorConfig, FileOptions):
    """Pairs of sentences."""

    main = "source"
    partner = "target"
    title = "pairs of sentences"
    two_sides = True
    valid = ("valid_source", "valid_target")
    source: Annotated[
        tuple[Path, ...],
        Doc("training text, a sentence a line; plain or gzip. May be repeated"),
    ] = ()
    target: Annotated[
        tuple[Path, ...], Doc("its translation, line by line; one for each --source")
    ] = ()
    tag: Annotated[
        tuple[str, ...],
        Doc('a word before each source line, such as <bt>; one for each --source, "" for none'),
    ] = ()
    valid_source: Annotated[Path | None, Doc("validation text")] = None
    valid_target: Annotated[Path | None, Doc("its translation")] = None
    target_lang: Annotated[str | None, Doc("language code, kept with models")] = None

    def problems(self) -> Iterator[str]:
        """What belongs together: the n-th of each."""
        if bool(self.source) != bool(self.target):
            given, missing = ("source", "target") if self.source else ("target", "source")
            yield f"--{given} is given, and --{missing} is not: each text needs its translation"
        elif len(self.target) != len(self.source):
            yield (
                f"--source is given {len(self.source)} times, --target {len(self.target)}: each "
                "text needs its translation"
            )
        if self.tag and len(self.tag) != len(self.source):
            yield (
                f"--source is given {len(self.source)} times, --tag {len(self.tag)}: give one for "
                'each, --tag "" being none, or leave them out'
            )
        if (self.valid_source is None) != (self.valid_target is None):
            yield "--valid-source and --valid-target belong together; give both, or neither"

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Of source and target."""
        return self.source_lang, self.target_lang

    @property
    def files(self) -> list[Path]:
        """All files that are read."""
        valid = filter(None, (self.valid_source, self.valid_target))
        return [*self.source, *self.target, *valid]

    def reader(self) -> CorpusReader[Any]:
        """What reads parallel files."""
        from regard.data.pair_files import Files, PairReader

        tags = self.tag or [""] * len(self.source)
        corpora = zip(self.source, self.target, tags, strict=True)
        parts = {"train": [Files(*files) for files in corpora]}
        if self.valid_source and self.valid_target:
            parts["valid"] = [Files(self.valid_source, self.valid_target)]
        return PairReader(parts, self)


@dataclass(frozen=True)
class TextFiles(FileOptions):
    """Running text."""

    main = "text"
    title = "running text"
    valid = ("valid_text",)
    text: Annotated[
        tuple[Path, ...],
        Doc("running text for language models; blank lines end a document. May be repeated"),
    ] = ()
    valid_text: Annotated[Path | None, Doc("with --text: validation text")] = None

    def reader(self) -> CorpusReader[Any]:
        """What reads running text."""
        from regard.data.text_files import TextReader

        return TextReader(self.parts())


@dataclass(frozen=True)
class TaggedFiles(LengthFilterConfig, FileOptions):
    """Words with labels."""

    main = "tagged"
    title = "words with labels"
    valid = ("valid_tagged",)
    tagged: Annotated[
        tuple[Path, ...],
        Doc(
            "words with labels, as CoNLL-U or as columns (word, tab, label); blank lines end a "
            "sentence. May be repeated"
        ),
    ] = ()
    valid_tagged: Annotated[Path | None, Doc("with --tagged: validation sentences")] = None
    column: Annotated[
        str | None,
        Doc(
            "with --tagged: the labels' column, by its name in CoNLL-U or its number; unset: upos "
            "in CoNLL-U, the last elsewhere"
        ),
    ] = None

    def reader(self) -> CorpusReader[Any]:
        """What reads words with labels."""
        from regard.data.label_files import LabelFormat, LabelReader

        return LabelReader(self.parts(), LabelFormat("tagged", self.column), self)


@dataclass(frozen=True)
class LabelledFiles(LengthFilterConfig, FileOptions):
    """Texts with labels."""

    main = "labelled"
    title = "texts with labels"
    valid = ("valid_labelled",)
    labelled: Annotated[
        tuple[Path, ...],
        Doc(
            "texts with labels, a line being label, tab, text, or label, tab, text, tab, text. May "
            "be repeated"
        ),
    ] = ()
    valid_labelled: Annotated[Path | None, Doc("with --labelled: validation texts")] = None
    header: Annotated[
        bool | None,
        Doc("with --labelled: whether the first line names the columns; unset: look"),
    ] = None

    def reader(self) -> CorpusReader[Any]:
        """What reads texts with labels."""
        from regard.data.label_files import LabelFormat, LabelReader

        return LabelReader(self.parts(), LabelFormat("labelled", header=self.header), self)


FILE_OPTIONS: list[type[FileOptions]] = [ParallelFiles, TextFiles, TaggedFiles, LabelledFiles]


def select_files(given: Mapping[str, Any]) -> FileOptions:
    """The files that some options name; options of other files are refused."""
    return select(FILE_OPTIONS, given, "files")

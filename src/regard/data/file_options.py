"""Input files of each task, as options of `regard prepare`; no heavy imports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from regard.bounds import Ge, Le
from regard.config import Doc
from regard.data.document_context import ContextOptions
from regard.data.filters import CorpusFilterConfig, LengthFilterConfig
from regard.data.term_annotation_config import TermAnnotationConfig
from regard.option_sets import OptionSet, select

if TYPE_CHECKING:
    from regard.data.pair_files import Files
    from regard.data.prepare import CorpusReader


@dataclass(frozen=True)
class FileOptions(OptionSet):
    """The input files of a task."""

    two_sides: ClassVar[bool] = False  # source and target, which may share a vocabulary
    valid: ClassVar[tuple[str, ...]] = ()  # the fields with validation files
    source_lang: Annotated[str | None, Doc("language code, stored with models")] = None

    @abstractmethod
    def reader(self) -> CorpusReader[Any]:
        """The reader of the files."""

    def parts(self) -> dict[str, list[Path]]:
        """The training files, and the validation file if there is one."""
        (name,) = self.valid
        valid = getattr(self, name)
        return {"train": [*getattr(self, self.main)]} | ({"valid": [valid]} if valid else {})

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of source and target, if given."""
        return self.source_lang, self.source_lang

    @property
    def files(self) -> list[Path]:
        """All input files."""
        return [path for part in self.parts().values() for path in part]


@dataclass(frozen=True)
class ParallelFiles(TermAnnotationConfig, ContextOptions, CorpusFilterConfig, FileOptions):
    """Parallel corpora."""

    main = "source"
    partner = "target"
    title = "pairs of sentences"
    two_sides = True
    valid = ("valid_source", "valid_target")
    source: Annotated[
        tuple[Path, ...],
        Doc("source training text, one sentence per line; plain or gzip; may be repeated"),
    ] = ()
    target: Annotated[
        tuple[Path, ...], Doc("target training text, parallel to --source; one for each --source")
    ] = ()
    tag: Annotated[
        tuple[str, ...],
        Doc('source tag, such as <bt>, to add to each line; one for each --source, "" for none'),
    ] = ()
    valid_source: Annotated[Path | None, Doc("source validation text")] = None
    valid_target: Annotated[Path | None, Doc("target validation text")] = None
    target_lang: Annotated[str | None, Doc("language code, stored with models")] = None
    both_directions: Annotated[
        bool,
        Doc("prepare both directions, for one model that translates --source-lang to and fro"),
    ] = False
    document_ids: Annotated[
        tuple[Path, ...],
        Doc(
            "document context: file with the id of the document of each line, before the first "
            "tab, instead of blank lines; one for each --source"
        ),
    ] = ()
    valid_document_ids: Annotated[
        Path | None, Doc("document context: the same for the validation text")
    ] = None

    def problems(self) -> Iterator[str]:
        """Files, tags and validation files must match in number."""
        yield from super().problems()
        if self.both_directions and not all(self.given_languages):
            yield "--both-directions requires --source-lang and --target-lang"
        elif self.both_directions and self.source_lang == self.target_lang:
            yield "--both-directions requires two languages, but --target-lang is --source-lang"
        if bool(self.source) != bool(self.target):
            present, missing = ("source", "target") if self.source else ("target", "source")
            yield f"--{present} is given without --{missing}: each text needs its translation"
        elif len(self.target) != len(self.source):
            yield (
                f"--source is given {len(self.source)} times, --target {len(self.target)} times: "
                "each text needs its translation"
            )
        if self.tag and len(self.tag) != len(self.source):
            yield (
                f"--source is given {len(self.source)} times, --tag {len(self.tag)} times: give "
                'one for each (--tag "" for none), or omit --tag'
            )
        if (self.valid_source is None) != (self.valid_target is None):
            yield "--valid-source and --valid-target must be given together"
        if self.min_lang_prob and not any(self.given_languages):
            yield "--min-lang-prob requires --source-lang or --target-lang"
        if self.document_ids and len(self.document_ids) != len(self.source):
            yield (
                f"--source is given {len(self.source)} times, --document-ids "
                f"{len(self.document_ids)} times: give one for each, or omit --document-ids"
            )
        if bool(self.valid_document_ids) != bool(self.document_ids and self.valid_source):
            yield (
                "--document-ids and --valid-document-ids must be given together, if there is "
                "validation text"
            )

    @property
    def given_languages(self) -> tuple[str | None, str | None]:
        """The languages of --source and --target."""
        return self.source_lang, self.target_lang

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of source and target, unless both directions are prepared."""
        return (None, None) if self.both_directions else self.given_languages

    @property
    def files(self) -> list[Path]:
        """All input files."""
        valid = filter(None, (self.valid_source, self.valid_target, self.valid_document_ids))
        return [*self.source, *self.target, *self.document_ids, *valid, *self.glossary_files]

    def reader(self) -> CorpusReader[Any]:
        """The reader of parallel files."""
        from regard.data.directions import Direction
        from regard.data.documents import pair_reader
        from regard.data.pair_files import Files
        from regard.data.term_annotation import TermAnnotation

        tags = self.tag or [""] * len(self.source)
        ids = self.document_ids or [None] * len(self.source)
        corpora = zip(self.source, self.target, tags, ids, strict=True)
        parts = {
            "train": [
                Files(source, target, tag, document_ids=path)
                for source, target, tag, path in corpora
            ]
        }
        if self.valid_source and self.valid_target:
            valid_ids = self.valid_document_ids
            parts["valid"] = [Files(self.valid_source, self.valid_target, document_ids=valid_ids)]
        if self.both_directions and self.source_lang and self.target_lang:
            direction = Direction(self.source_lang, self.target_lang)
            for name, listed in parts.items():
                directed = [replace(files, direction=direction) for files in listed]
                parts[name] = [each for files in directed for each in (files, files.reverse)]
        return pair_reader(
            parts,
            self,
            self.document_context,
            self.languages,
            annotation=TermAnnotation.of(self),
        )


@dataclass(frozen=True)
class DirectionsFile(TermAnnotationConfig, ContextOptions, CorpusFilterConfig, FileOptions):
    """Parallel corpora of several directions."""

    main = "corpora"
    title = "several directions"
    two_sides = True
    corpora: Annotated[
        Path | None,
        Doc(
            "TOML file that lists parallel corpora and their languages, for one model of several "
            "directions"
        ),
    ] = None
    tokenizer_temperature: Annotated[
        float,
        Doc(
            "with --corpora: temperature T of the text for the tokenizer; a language of n lines is "
            "sampled in proportion to n^(1/T), 1: all lines"
        ),
        Ge(1),
        Le(1000),
    ] = 5.0

    def problems(self) -> Iterator[str]:
        """The languages are in the file."""
        yield from super().problems()
        if self.source_lang is not None:
            yield "--source-lang has no effect on --corpora, which lists languages; leave it out"

    @property
    def files(self) -> list[Path]:
        """The TOML file, and the files that it lists."""
        assert self.corpora is not None
        listed = [files for corpora in self._parts().values() for files in corpora]
        paths = [(files.source, files.target, files.document_ids) for files in listed]
        texts = [path for corpus in paths for path in corpus if path]
        return [self.corpora, *texts, *self.glossary_files]

    def _parts(self) -> dict[str, list[Files]]:
        from regard.data.corpora_file import read_corpora

        assert self.corpora is not None
        return read_corpora(self.corpora)

    def reader(self) -> CorpusReader[Any]:
        """The reader of parallel files with directions."""
        from regard.data.documents import pair_reader
        from regard.data.term_annotation import TermAnnotation

        return pair_reader(
            self._parts(),
            self,
            self.document_context,
            tokenizer_temperature=self.tokenizer_temperature,
            annotation=TermAnnotation.of(self),
        )


@dataclass(frozen=True)
class TextFiles(FileOptions):
    """Plain text."""

    main = "text"
    title = "plain text"
    valid = ("valid_text",)
    text: Annotated[
        tuple[Path, ...],
        Doc("plain text for language models; blank lines separate documents; may be repeated"),
    ] = ()
    valid_text: Annotated[Path | None, Doc("with --text: validation text")] = None

    def reader(self) -> CorpusReader[Any]:
        """The reader of plain text."""
        from regard.data.plain_text_files import TextReader

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
            "words with labels, as CoNLL-U or as columns (word, tab, label); blank lines separate "
            "sentences; may be repeated"
        ),
    ] = ()
    valid_tagged: Annotated[Path | None, Doc("with --tagged: validation sentences")] = None
    column: Annotated[
        str | None,
        Doc(
            "with --tagged: label column, by its name in CoNLL-U or its number; default: upos "
            "in CoNLL-U, else the last column"
        ),
    ] = None

    def reader(self) -> CorpusReader[Any]:
        """The reader of words with labels."""
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
            "texts with labels, one per line: label, tab, text, or label, tab, text, tab, text. "
            "May be repeated"
        ),
    ] = ()
    valid_labelled: Annotated[Path | None, Doc("with --labelled: validation texts")] = None
    header: Annotated[
        bool | None,
        Doc("with --labelled: whether the first line is a header; default: detect"),
    ] = None

    def reader(self) -> CorpusReader[Any]:
        """The reader of texts with labels."""
        from regard.data.label_files import LabelFormat, LabelReader

        return LabelReader(self.parts(), LabelFormat("labelled", header=self.header), self)


FILE_OPTIONS: list[type[FileOptions]] = [
    ParallelFiles,
    DirectionsFile,
    TextFiles,
    TaggedFiles,
    LabelledFiles,
]


def select_files(options: Mapping[str, Any]) -> FileOptions:
    """The input files that the options select; options of other tasks are errors."""
    return select(FILE_OPTIONS, options, "files")

"""Text files in, a prepared folder out: doctor, tokenizer, store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config import Tree
from regard.data.doctor import DoctorConfig, Report, examined
from regard.data.store import Content
from regard.data.store_description import dtype_for, with_checksums
from regard.data.store_writer import PartWriter, describe
from regard.errors import ConfigError, DataError, StorageError, one_message
from regard.files import is_leftover, whole_folder, write_json
from regard.text.config import TokenizerConfig
from regard.text.foreign import FOREIGN_FILES
from regard.text.sentences import sentences
from regard.text.tags import tag_problems, tagged
from regard.text.tokenizer import Tokenizers, train_tokenizers

Progress = Callable[[str, int], None]
_OURS = ("store.json", ".ids", ".offsets", ".fertilities", ".distributions", ".model")


@dataclass(frozen=True)
class Files:
    """A corpus: two files whose lines belong together, and the tag before each source line."""

    source: Path
    target: Path
    tag: str = ""

    def __str__(self) -> str:
        return f"{self.source} and {self.target}" + (f", tagged {self.tag}" if self.tag else "")


Parts = Mapping[str, Sequence[Files]]


@dataclass(frozen=True)
class Prepared:
    """What came of it, for the person who asked."""

    tokenizers: Tokenizers
    reports: dict[str, list[Report]]  # of each part, one for each corpus
    description: Tree


def prepare(
    parts: Parts,
    out: Path,
    *,
    tokenizer: TokenizerConfig | Tokenizers,
    doctor: DoctorConfig,
    languages: tuple[str | None, str | None] = (None, None),
    progress: Progress = lambda task, lines: None,
) -> Prepared:
    """Examine all files, learn the tokenizers on "train", and write the store to `out`.

    Tokenizers that are given instead of their settings are taken as they are.
    """
    refuse_foreign_folder(out)
    _refuse_bad_tags(parts)
    sets = {name: _Part(name, corpora, doctor) for name, corpora in parts.items()}
    _examine([*sets.values()], progress)
    train = sets["train"]
    tokenizers = learned_or_given(
        tokenizer, lambda: train.side(0), lambda: train.side(1), train.tags
    )
    reports = {name: part.reports() for name, part in sets.items()}

    def write(folder: Path) -> Tree:
        return {
            name: _write_part(folder, part, train, tokenizers, reports[name], progress)
            for name, part in sets.items()
        }

    description = write_store(out, tokenizers, write, languages)
    return Prepared(tokenizers, reports, description)


def learned_or_given(
    tokenizer: TokenizerConfig | Tokenizers,
    source: Callable[[], Iterator[str]],
    target: Callable[[], Iterator[str]] = lambda: iter(()),
    tags: Sequence[str] = (),
) -> Tokenizers:
    """Tokenizers of these texts; those that are given in place of settings are taken as they are.

    Tags are no text.
    """
    if isinstance(tokenizer, TokenizerConfig):
        return train_tokenizers(source, target, tokenizer, tags)
    return tokenizer


def write_store(
    out: Path,
    tokenizers: Tokenizers,
    write: Callable[[Path], Tree],
    languages: tuple[str | None, str | None],
    content: Content = "pairs",
    labels: Sequence[str] = (),
) -> Tree:
    """A prepared folder; `write` writes its parts to a folder, and describes them."""
    with whole_folder(out) as folder:
        for file, model in tokenizers.files().items():
            (folder / file).write_bytes(model)
        named = dict(zip(("source", "target"), languages, strict=True))
        description = describe(write(folder), tokenizers, named, content, labels)
        write_json(folder / "store.json", with_checksums(description, folder))
    return description


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


def refuse_unusable(
    parts: Mapping[str, Sequence[Path]], reports: Mapping[str, Sequence[Report]]
) -> None:
    """One message about all single files that cannot be used."""
    problems = []
    for name, files in parts.items():
        for path, report in zip(files, reports[name], strict=True):
            found = report.errors or ([] if report.kept else [_nothing_in(report)])
            if found:
                problems.append(one_message(found, f"{path} cannot be used"))
    _refuse(problems)


def _nothing_in(report: Report) -> str:
    found = "".join(f"; {what}: {count}" for what, (count, _) in report.found.items())
    return f"it has no text that is left{found}. Check the path."


def _refuse_bad_tags(parts: Parts) -> None:
    problems = tag_problems(files.tag for corpora in parts.values() for files in corpora)
    if problems:
        raise ConfigError(one_message(problems, "The tags cannot be used"))


class _Part:
    """The corpora of one part, read as if they were one."""

    def __init__(self, name: str, corpora: Sequence[Files], doctor: DoctorConfig) -> None:
        self.name = name
        self.corpora = corpora
        self.rules = doctor if name == "train" else doctor.for_validation()
        self.seen: set[int] = set()  # the pairs that were read last time

    def reports(self) -> list[Report]:
        """An empty report for each corpus."""
        return [Report() for _ in self.corpora]

    def examined(
        self, reports: Sequence[Report], progress: Progress, task: str
    ) -> Iterator[tuple[int, int, str, str]]:
        """The pairs worth keeping, as (number of the corpus, line, source, target)."""
        # A pair that was seen before is skipped across corpora too, whatever their tags: a
        # back-translation that hits upon the genuine source has nothing to add to the genuine
        # pair, which is kept since its corpus was named first.
        self.seen = set()
        for number, (files, report) in enumerate(zip(self.corpora, reports, strict=True)):
            name = f"{self.name} {number + 1}" if len(self.corpora) > 1 else self.name
            pairs = examined(files.source, files.target, self.rules, report, self.seen)
            try:
                for line, source, target in pairs:
                    progress(f"{task} {name}", line)
                    yield number, line, source, target
            except DataError as error:  # this file cannot be read, but the next ones may be
                report.errors.append(str(error))

    def side(self, index: int) -> Iterator[str]:
        """The sources (0) or the targets (1) of all corpora, to learn subwords from."""
        for _, _, *pair in self.examined(self.reports(), lambda task, line: None, "learning"):
            yield pair[index]

    @property
    def tags(self) -> list[str]:
        """Those that its corpora have."""
        return [files.tag for files in self.corpora if files.tag]

    def problems(self, reports: Sequence[Report]) -> Iterator[str]:
        """What cannot be used, a message for each corpus."""
        for files, report in zip(self.corpora, reports, strict=True):
            try:
                report.refuse_errors(files.source, files.target)
            except DataError as error:
                yield str(error)


def _examine(parts: Sequence[_Part], progress: Progress) -> None:
    """The whole of all files before anything else, so that errors come first and all at once."""
    problems: list[str] = []
    for part in parts:
        reports = part.reports()
        for number, *_ in part.examined(reports, progress, "examining"):
            reports[number].kept += 1
        problems += part.problems(reports)
    _refuse(problems)


def _refuse(problems: Iterable[str]) -> None:
    message = "\n".join(problems)
    if message:
        raise DataError(message)


def _write_part(
    folder: Path,
    part: _Part,
    train: _Part,
    tokenizers: Tokenizers,
    reports: Sequence[Report],
    progress: Progress,
) -> Tree:
    several = 0
    # Names without their folders, which are nobody's business.
    names = [(files.source.name, files.target.name, files.tag) for files in part.corpora]
    with PartWriter(folder, part.name, dtype_for(tokenizers), names) as pairs:
        for number, line, source, target in part.examined(reports, progress, "encoding"):
            text = tagged(source, part.corpora[number].tag)
            ids = tokenizers.source.encode(text), tokenizers.target.encode(target)
            if max(map(len, ids)) > part.rules.max_tokens:
                reports[number].note("too many subwords: skipped", line)
                continue
            pairs.append(number, *ids)
            reports[number].kept += 1
            several += len(sentences(source)) > 1
            if part is not train and hash((source, target)) in train.seen:
                reports[number].note("also in the training text", line)
    _refuse(part.problems(reports))
    description = pairs.description()
    share = several / description["pairs"]
    return {**description, "several_sentences": share, "found": _found(reports)}


def _found(reports: Sequence[Report]) -> dict[str, int]:
    """What was found in all corpora together."""
    total: dict[str, int] = {}
    for report in reports:
        for what, (count, _) in report.found.items():
            total[what] = total.get(what, 0) + count
    return total

"""Running text in, a prepared folder out: doctor, tokenizer, store. Blank lines end a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from regard.config import Tree
from regard.data.doctor import Report, examined_text
from regard.data.prepare import (
    Prepared,
    Progress,
    learned_or_given,
    refuse_foreign_folder,
    refuse_unusable,
    write_store,
)
from regard.data.store_writer import TextWriter
from regard.errors import DataError
from regard.text.config import TokenizerConfig
from regard.text.special import SPECIAL
from regard.text.tokenizer import Tokenizers


def prepare_text(
    parts: Mapping[str, Sequence[Path]],
    out: Path,
    *,
    tokenizer: TokenizerConfig | Tokenizers,
    language: str | None = None,
    progress: Progress = lambda task, lines: None,
) -> Prepared:
    """Examine all files, learn subwords on "train", and write the store to `out`.

    A tokenizer that is given instead of its settings is taken as it is.
    """
    refuse_foreign_folder(out)
    reports = {
        name: [_examined(path, progress, name) for path in files] for name, files in parts.items()
    }
    refuse_unusable(parts, reports)

    def lines() -> Iterator[str]:
        for path in parts["train"]:
            yield from (text for _, text in examined_text(path, Report()) if text)

    tokenizers = learned_or_given(tokenizer, lines)

    def write(folder: Path) -> Tree:
        return {
            name: _write_part(folder, name, files, tokenizers, progress)
            for name, files in parts.items()
        }

    description = write_store(out, tokenizers, write, (language, language), "text")
    return Prepared(tokenizers, reports, description)


def _examined(path: Path, progress: Progress, name: str) -> Report:
    report = Report()
    try:
        for number, _ in examined_text(path, report):
            progress(f"examining {name}", number)
    except DataError as error:  # this file cannot be read, but the next ones may be
        report.errors.append(str(error))
    return report


def _write_part(
    folder: Path, name: str, files: Sequence[Path], tokenizers: Tokenizers, progress: Progress
) -> Tree:
    words = characters = 0
    with TextWriter(folder, name, tokenizers) as writer:
        for path in files:
            waiting: list[int] | None = None  # the last line, whose break is not known yet
            for number, text in examined_text(path, Report()):
                progress(f"encoding {name}", number)
                words, characters = words + len(text.split()), characters + len(text)
                if waiting is not None:
                    mark = tokenizers.source.line_break if text else SPECIAL.end
                    writer.append([*waiting, mark], ends=not text)
                waiting = tokenizers.source.encode(text) if text else None
            if waiting is not None:  # a file ends its last document
                writer.append([*waiting, SPECIAL.end], ends=True)
        found = writer.description()
    # Names without their folders, which are nobody's business.
    corpora = [path.name for path in files]
    return {**found, "words": words, "characters": characters, "corpora": corpora}

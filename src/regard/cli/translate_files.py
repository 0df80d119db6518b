"""The option --file of regard translate: documents in their own formats."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.cli.command import refuse_options
from regard.cli.outputs import reserve_outputs
from regard.cli.results import OutputOptions, ResultWriter
from regard.cli.tables import format_throughput
from regard.config import Doc, settings_of
from regard.decoding.runtime import ThroughputOptions
from regard.documents.config import DocumentConfig
from regard.errors import ConfigError, DataError, RegardError, format_problems
from regard.notices import limited_notices
from regard.progress import ProgressDisplay, notify

if TYPE_CHECKING:
    from regard.pipelines.document_translation import OpenDocument
    from regard.pipelines.text_search import Translation
    from regard.pipelines.translator import Translator


@dataclass(frozen=True)
class FileOptions(DocumentConfig):
    """Documents to translate."""

    file: Annotated[
        tuple[Path, ...],
        Doc("document to translate in its own format, instead of standard input; repeatable"),
    ] = ()
    out: Annotated[
        Path | None,
        Doc("translated document; a folder if there are several documents, or if it exists"),
    ] = None


class OpenFile(NamedTuple):
    """A document that has been read, and the path of its translation."""

    document: OpenDocument
    target: Path


def open_files(
    context: typer.Context,
    options: FileOptions,
    output: OutputOptions,
    keywords: Mapping[str, Any],
) -> list[OpenFile]:
    """Read all documents, and check and lock the paths of their translations."""
    settings = [setting.name for setting in settings_of(DocumentConfig)]
    if not options.file:
        reason = "no effect without documents. Use --file, or leave it out."
        refuse_options(context, ("out", "overwrite", *settings), reason)
        return []
    from regard.pipelines.document_translation import open_file, refuse_other_format

    refuse_options(context, ("scores",), "no effect with --file. Use --format jsonl.")
    if output.format == "text":
        reason = "no effect with --file without --format jsonl: a document has one translation."
        refuse_options(context, ("num_hypotheses",), reason)
    targets = _targets(options.file, options.out)
    for target in targets:
        reserve_outputs(context, {"--out": target}, inputs=options.file, overwrite=output.overwrite)
    selected: Any = {**keywords, **{name: getattr(options, name) for name in settings}}
    files, problems = [], []
    for path, target in zip(options.file, targets, strict=True):
        try:
            document = open_file(path, **selected)
            refuse_other_format(target, document)
            files.append(OpenFile(document, target))
        except RegardError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise DataError(format_problems([*map(str, problems)], "The documents cannot be read"))
    return files


def _targets(files: Sequence[Path], out: Path | None) -> list[Path]:
    """The path of the translation of each file."""
    if out is None:
        raise ConfigError("--file requires --out, the path of the translated document.")
    if len(files) == 1 and not out.is_dir():
        return [out]
    names = [path.name for path in files]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated:
        raise ConfigError(
            f"Two documents are named {repeated}, so their translations in {out} would have the "
            "same path. Translate them into different folders."
        )
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file, but must be a folder for several documents.")
    return [out / name for name in names]


def translate_files(
    files: Sequence[OpenFile],
    translator: Translator,
    prefix: str,
    batch_size: int | None,
    throughput: ThroughputOptions,
    results: ResultWriter,
    to_row: Callable[[Translation], dict[str, Any]],
) -> None:
    """Translate documents one after the other, and write each of them."""
    from regard.pipelines.document_translation import write_document
    from regard.pipelines.text_stream import default_workers

    total, start = 0, time.perf_counter()
    with ProgressDisplay() as progress, limited_notices(notify) as notice:
        for opened, target in files:
            texts = len(opened.document.texts)
            workers = throughput.workers
            translated = opened.translate(
                translator,
                prefix=prefix,
                on_translation=_reporter(opened, results, to_row, progress),
                batch_size=batch_size,
                window=throughput.buffer_size,
                workers=default_workers(translator.backend.device, texts)
                if workers is None
                else workers,
                notice=notice,
            )
            write_document(target, translated.content)
            total += texts
            notify(f"Wrote {target}.")
    notify(format_throughput(total, time.perf_counter() - start, "text"))


def _reporter(
    opened: OpenDocument,
    results: ResultWriter,
    to_row: Callable[[Translation], dict[str, Any]],
    progress: ProgressDisplay,
) -> Callable[[Translation], None]:
    """A function that writes a row for each translation, and updates the progress bar."""
    texts, unit = opened.document.texts, opened.document.unit
    remaining, completed = iter(texts), count(1)

    def report(translation: Translation) -> None:
        place = {"file": opened.name, "unit": unit, "number": next(remaining).number}
        results.add({**place, **to_row(translation)})
        progress.update(opened.name, next(completed), len(texts))

    return report

"""Two text files in, a prepared folder out: doctor, tokenizer, store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.config import Tree, as_tree
from regard.data.doctor import DoctorConfig, Report, examined
from regard.data.store import FORMAT, SideWriter, fingerprint
from regard.errors import StorageError
from regard.files import whole_folder, write_json
from regard.text.config import TokenizerConfig
from regard.text.sentences import sentences
from regard.text.tokenizer import Tokenizers, train_tokenizers

Progress = Callable[[str, int], None]
_OURS = ("store.json", ".ids", ".offsets", ".model")


@dataclass(frozen=True)
class Files:
    """Two files whose lines belong together."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Prepared:
    """What came of it, for the person who asked."""

    tokenizers: Tokenizers
    reports: dict[str, Report]
    description: Tree


def prepare(
    parts: dict[str, Files],
    out: Path,
    *,
    tokenizer: TokenizerConfig,
    doctor: DoctorConfig,
    languages: tuple[str | None, str | None] = (None, None),
    progress: Progress = lambda task, lines: None,
) -> Prepared:
    """Examine all files, learn the tokenizers on "train", and write the store to `out`."""
    _refuse_foreign_folder(out)
    rules = {name: doctor if name == "train" else doctor.for_validation() for name in parts}
    for name, files in parts.items():
        _examine(name, files, rules[name], progress)
    tokenizers = _learn(parts["train"], doctor, tokenizer)
    with whole_folder(out) as folder:
        for file, content in tokenizers.files().items():
            (folder / file).write_bytes(content)
        reports: dict[str, Report] = {}
        described: Tree = {}
        for name, files in parts.items():
            reports[name] = Report()
            described[name] = _write_part(
                folder, name, files, rules[name], tokenizers, reports[name], progress
            )
        description = _describe(described, tokenizers, languages)
        write_json(folder / "store.json", description)
    return Prepared(tokenizers, reports, description)


def _refuse_foreign_folder(out: Path) -> None:
    """Since the whole folder is replaced, nothing may be in it but what was prepared before."""
    names = sorted(path.name for path in out.iterdir()) if out.is_dir() else []
    foreign = [name for name in names if not name.endswith(_OURS)]
    if out.is_file() or foreign or (names and "store.json" not in names):
        example = f" (it holds {foreign[0]})" if foreign else ""
        raise StorageError(
            f"{out} exists and is not a prepared folder{example}, so it is left as it is. "
            "Choose another --out."
        )
    if Path.cwd().is_relative_to(out.resolve()):
        raise StorageError(
            f"{out} is the folder that this runs in, and cannot be replaced. Choose another --out."
        )


def _examine(name: str, files: Files, rules: DoctorConfig, progress: Progress) -> None:
    """The whole of both files before anything else, so that errors come first and all at once."""
    report = Report()
    for number, _, _ in examined(files.source, files.target, rules, report):
        report.kept += 1
        progress(f"examining {name}", number)
    report.refuse_errors(files.source, files.target)


def _learn(files: Files, doctor: DoctorConfig, config: TokenizerConfig) -> Tokenizers:
    def side(index: int) -> Iterator[str]:
        for pair in examined(files.source, files.target, doctor, Report()):
            yield (pair[1], pair[2])[index]

    return train_tokenizers(lambda: side(0), lambda: side(1), config)


def _write_part(
    folder: Path,
    name: str,
    files: Files,
    rules: DoctorConfig,
    tokenizers: Tokenizers,
    report: Report,
    progress: Progress,
) -> Tree:
    dtype = _dtype(tokenizers)
    several = 0
    with (
        SideWriter(folder, f"{name}.source", dtype) as sources,
        SideWriter(folder, f"{name}.target", dtype) as targets,
    ):
        for number, source, target in examined(files.source, files.target, rules, report):
            progress(f"encoding {name}", number)
            ids = tokenizers.source.encode(source), tokenizers.target.encode(target)
            if max(map(len, ids)) > rules.max_tokens:
                report.note("too many subwords: skipped", number)
                continue
            sources.append(ids[0])
            targets.append(ids[1])
            report.kept += 1
            several += len(sentences(source)) > 1
    report.refuse_errors(files.source, files.target)
    return {
        "pairs": report.kept,
        "source_tokens": sources.tokens,
        "target_tokens": targets.tokens,
        "longest_source": sources.longest,
        "longest_target": targets.longest,
        "several_sentences": several / report.kept,
        "digest": fingerprint([sources.digest, targets.digest]),
        "found": {what: count for what, (count, _) in report.found.items()},
    }


def _dtype(tokenizers: Tokenizers) -> str:
    largest = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return "uint16" if largest <= 2**16 else "uint32"


def _describe(
    parts: Tree, tokenizers: Tokenizers, languages: tuple[str | None, str | None]
) -> Tree:
    contents = [part["digest"].encode() for part in parts.values()]
    contents += [tokenizers.source.model, tokenizers.target.model]
    contents += [json.dumps(as_tree(tokenizers.config)).encode()]
    return {
        "format": FORMAT,
        "languages": {"source": languages[0], "target": languages[1]},
        "tokenizer": as_tree(tokenizers.config),
        "vocabulary": {
            "source": tokenizers.source.vocab_size,
            "target": tokenizers.target.vocab_size,
            "joint": tokenizers.config.joint,
        },
        "dtype": _dtype(tokenizers),
        "parts": parts,
        "fingerprint": fingerprint(contents),
    }

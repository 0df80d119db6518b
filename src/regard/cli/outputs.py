"""What a command may write: never onto what it reads, nor onto what exists unless it is told to."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path
from types import FrameType

import typer

from regard.errors import ConfigError, StorageError
from regard.files import explained, held_output, is_leftover, is_stream

# What the files of prepared folders, model folders and exported models are called, so that
# --overwrite replaces such a folder and no other.
_MADE = (
    *("store.json", "*.ids", "*.offsets", "*.fertilities", "*.distributions"),
    *("config.json", "model.safetensors", "shortlist.json", "*.onnx", "*.onnx.data", "onnx.json"),
    *("tokenizer.model", "source.model", "target.model", "spiece.model", "*.spm"),
    *("vocab.json", "target_vocab.json", "vocab.txt", "merges.txt", "numbering.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "digests.json"),
    *("generation_config.json", "added_tokens.json", "special_tokens.json"),
    *("ctranslate2", "model.bin", "*vocabulary.json", "*vocabulary.txt", "vmap.txt"),
)
# And those by which one is recognised.
_SIGNS = ("store.json", "*.ids", "model.safetensors", "onnx.json", "ctranslate2")


def claim(
    context: typer.Context,
    outputs: Mapping[str, Path | None],
    *,
    inputs: Iterable[Path | None],
    overwrite: bool,
    folder: bool = False,
) -> None:
    """Refuse outputs that would harm something, and hold the others until the command ends.

    `outputs` are those that the options of these names give, all files or all folders. A second
    process with the same output is refused before it does any work.
    """
    if overwrite and not any(outputs.values()):
        raise ConfigError(
            f"--overwrite: nothing is written without {' or '.join(outputs)}. Leave it out."
        )
    refuse_overlaps(outputs, inputs)
    context.with_resource(_ended_by_signals())
    for option, path in outputs.items():
        if path is None:
            continue
        if is_stream(path) and not folder:
            _refuse_unwritable(path)
            continue
        context.with_resource(held_output(path))
        with explained(path):
            _refuse_existing(option, path, overwrite=overwrite, folder=folder)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, so that temporary files are removed.

    A second one acts at once. Processes that are started meanwhile keep the usual behaviour.
    """
    owner, usual = os.getpid(), {}

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != owner:
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # under nohup, SIGHUP is ignored
            usual[number] = signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def _refuse_unwritable(stream: Path) -> None:
    """Refuse a device, a pipe or an open file that is not there or may not be written to.

    It is not opened: whoever reads from a pipe would take closing it for the end of the data.
    """
    with explained(stream):
        stream.stat()
        if not os.access(stream, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(stream))


def refuse_overlaps(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse to write onto an input, into a folder that is read, or twice onto one path."""
    read = [path for path in inputs if path is not None]
    seen: dict[str, Path] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        with explained(path):
            if is_stream(path):
                continue
            for one in read:
                _refuse_input(option, path, one)
            for other, claimed in seen.items():
                if _is_same(path, claimed):
                    raise StorageError(
                        f"{option} and {other} are both {path}. Choose another {option}."
                    )
            _refuse_standard_streams(option, path)
        seen[option] = path


def _refuse_input(option: str, path: Path, read: Path) -> None:
    if _is_same(path, read):
        what = "is the same as"
    elif read.is_dir() and _is_inside(path, read):
        what = "is inside"
    elif path.is_dir() and _is_inside(read, path):
        what = "contains"
    else:
        return
    raise StorageError(
        f"{option} {path} {what} {read}, which this command reads. Choose another {option}."
    )


def _refuse_standard_streams(option: str, path: Path) -> None:
    """Refuse a file that standard input comes from, or that standard output or error go to."""
    for descriptor, name in enumerate(("input", "output", "error")):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                raise StorageError(
                    f"{option} {path} is also this command's standard {name}. "
                    f"Choose another {option}."
                )


def _refuse_existing(option: str, path: Path, *, overwrite: bool, folder: bool) -> None:
    if path.is_dir() != folder and path.exists():
        found, needed = ("file", "folder") if folder else ("folder", "file")
        raise StorageError(f"{path} is a {found}, and {option} is a {needed}. Choose another one.")
    if folder and path.is_dir() and Path.cwd().is_relative_to(path.resolve()):
        raise StorageError(
            f"{path} is the folder that this runs in, and cannot be replaced. "
            f"Choose another {option}."
        )
    if not path.exists() or (folder and not any(_entries(path))):
        return
    if not overwrite:
        choice = f"Choose another {option}, or add" if option.startswith("--") else "Add"
        raise StorageError(
            f"{path} exists, so it is left as it is. {choice} --overwrite to replace it."
        )
    if folder:
        _refuse_foreign(option, path)


def _refuse_foreign(option: str, path: Path) -> None:
    """Refuse to replace a folder with anything in it that this program does not write."""
    foreign = [entry for entry in _all_entries(path) if not _is_made(entry)]
    if foreign or not any(_is_like(entry, _SIGNS) for entry in _entries(path)):
        example = f" (it holds {foreign[0].relative_to(path)})" if foreign else ""
        raise StorageError(
            f"{path} is not a folder that regard would write here{example}, so it is left as it "
            f"is, even with --overwrite. Choose another {option}, or move it."
        )


def _entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, but for what a killed process left there."""
    return (path for path in folder.iterdir() if not is_leftover(path))


def _all_entries(folder: Path) -> Iterator[Path]:
    """The same, and what is in the folders in it."""
    for path in sorted(_entries(folder)):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _all_entries(path)


def _is_made(path: Path) -> bool:
    return path.name == "ctranslate2" if path.is_dir() else _is_like(path, _MADE)


def _is_like(path: Path, patterns: Iterable[str]) -> bool:
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to one file or folder, by links or as hard links."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)


def _is_inside(path: Path, folder: Path) -> bool:
    return any(_is_same(parent, folder) for parent in Path(os.path.realpath(path)).parents)

"""Checks and locks output paths; inputs are never overwritten, other files with --overwrite."""

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
from regard.files import explain_os_errors, is_stream, is_temporary_path, locked_output

# File names in prepared folders, model folders and exported models; --overwrite replaces only
# folders that contain nothing else.
_OUTPUT_FILES = (
    *("store.json", "*.ids", "*.offsets", "*.fertilities", "*.distributions"),
    *("config.json", "model.safetensors", "shortlist.json", "calibration.json"),
    *("*.onnx", "*.onnx.data", "onnx.json"),
    *("tokenizer.model", "source.model", "target.model", "spiece.model", "*.spm"),
    *("vocab.json", "target_vocab.json", "vocab.txt", "merges.txt", "numbering.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "digests.json"),
    *("generation_config.json", "added_tokens.json", "special_tokens.json"),
    *("ctranslate2", "model.bin", "*vocabulary.json", "*vocabulary.txt", "vmap.txt"),
)
# At least one of these is in such a folder.
_REQUIRED_FILES = ("store.json", "*.ids", "model.safetensors", "onnx.json", "ctranslate2")


def reserve_outputs(
    context: typer.Context,
    outputs: Mapping[str, Path | None],
    *,
    inputs: Iterable[Path | None],
    overwrite: bool,
    folder: bool = False,
) -> None:
    """Raise an error for unusable output paths, and lock the others until the command ends.

    `outputs` maps options to their paths, all files or all folders. A second process with the same
    output fails before it does any work.
    """
    if overwrite and not any(outputs.values()):
        raise ConfigError(f"--overwrite: no effect without {' or '.join(outputs)}. Leave it out.")
    refuse_overlaps(outputs, inputs)
    context.with_resource(_exit_on_signals())
    for option, path in outputs.items():
        if path is None:
            continue
        if is_stream(path) and not folder:
            _refuse_unwritable(path)
            continue
        context.with_resource(locked_output(path))
        with explain_os_errors(path):
            _refuse_existing(option, path, overwrite=overwrite, folder=folder)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """Exit on SIGTERM and SIGHUP as on Ctrl-C, so that temporary files are removed.

    A second signal kills the process. Child processes have the default behaviour.
    """
    owner, previous = os.getpid(), {}

    def exit_once(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != owner:
            os.kill(os.getpid(), number)
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # under nohup, SIGHUP is ignored
            previous[number] = signal.signal(number, exit_once)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _refuse_unwritable(stream: Path) -> None:
    """Raise an error if a device, pipe or open file is missing or not writable.

    It is not opened: closing a pipe again would end the stream for its reader.
    """
    with explain_os_errors(stream):
        stream.stat()
        if not os.access(stream, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(stream))


def refuse_overlaps(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Raise an error if an output is an input, is inside an input folder, or is given twice."""
    input_paths = [path for path in inputs if path is not None]
    seen: dict[str, Path] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        with explain_os_errors(path):
            if is_stream(path):
                continue
            for input_path in input_paths:
                _refuse_input(option, path, input_path)
            for other, claimed in seen.items():
                if _is_same(path, claimed):
                    raise StorageError(
                        f"{option} and {other} are both {path}. Choose another {option}."
                    )
            _refuse_standard_streams(option, path)
        seen[option] = path


def _refuse_input(option: str, path: Path, input_path: Path) -> None:
    if _is_same(path, input_path):
        relation = "is the same as"
    elif input_path.is_dir() and _is_inside(path, input_path):
        relation = "is inside"
    elif path.is_dir() and _is_inside(input_path, path):
        relation = "contains"
    else:
        return
    raise StorageError(
        f"{option} {path} {relation} {input_path}, which is an input of this command. "
        f"Choose another {option}."
    )


def _refuse_standard_streams(option: str, path: Path) -> None:
    """Raise an error if a standard stream is redirected from or to the output file."""
    for descriptor, name in enumerate(("input", "output", "error")):
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                raise StorageError(
                    f"{option} {path} is also this command's standard {name}. "
                    f"Choose another {option}."
                )


def _refuse_existing(option: str, path: Path, *, overwrite: bool, folder: bool) -> None:
    if path.is_dir() != folder and path.exists():
        actual, expected = ("file", "folder") if folder else ("folder", "file")
        raise StorageError(
            f"{path} is a {actual}, but {option} must be a {expected}. Choose another path."
        )
    if folder and path.is_dir() and Path.cwd().is_relative_to(path.resolve()):
        raise StorageError(
            f"{path} is or contains the current folder, and cannot be replaced. "
            f"Choose another {option}."
        )
    if not path.exists() or (folder and not any(_entries(path))):
        return
    if not overwrite:
        choice = f"Choose another {option}, or use" if option.startswith("--") else "Use"
        raise StorageError(f"{path} exists already. {choice} --overwrite to replace it.")
    if folder:
        _refuse_foreign(option, path)


def _refuse_foreign(option: str, path: Path) -> None:
    """Raise an error if a folder contains files that regard does not write."""
    foreign = [entry for entry in _all_entries(path) if not _is_output(entry)]
    if foreign or not any(_matches(entry, _REQUIRED_FILES) for entry in _entries(path)):
        example = f" (it contains {foreign[0].relative_to(path)})" if foreign else ""
        raise StorageError(
            f"{path} was not written by regard{example}, so --overwrite does not replace it. "
            f"Choose another {option}, or move the folder."
        )


def _entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder, without temporary files of killed processes."""
    return (path for path in folder.iterdir() if not is_temporary_path(path))


def _all_entries(folder: Path) -> Iterator[Path]:
    """The entries of a folder and of its subfolders."""
    for path in sorted(_entries(folder)):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _all_entries(path)


def _is_output(path: Path) -> bool:
    return path.name == "ctranslate2" if path.is_dir() else _matches(path, _OUTPUT_FILES)


def _matches(path: Path, patterns: Iterable[str]) -> bool:
    return any(fnmatch(path.name, pattern) for pattern in patterns)


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths lead to the same file or folder, including symbolic and hard links."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)


def _is_inside(path: Path, folder: Path) -> bool:
    return any(_is_same(parent, folder) for parent in Path(os.path.realpath(path)).parents)

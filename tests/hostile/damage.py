"""Changes of the bytes or type of a file."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

Change = Callable[[Path, random.Random], None]


def _bytes(change: Callable[[bytearray, random.Random], bytes | bytearray]) -> Change:
    def apply_change(path: Path, draw: random.Random) -> None:
        path.write_bytes(change(bytearray(path.read_bytes()), draw))

    return apply_change


def _flipped(data: bytearray, draw: random.Random) -> bytearray:
    if data:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return data


def _scrambled(data: bytearray, draw: random.Random) -> bytearray:
    for _ in range(max(1, len(data) // 50)):
        _flipped(data, draw)
    return data


def _zeroed(data: bytearray, draw: random.Random) -> bytearray:
    begin = draw.randrange(len(data) + 1)
    end = min(len(data), begin + draw.choice([1, 8, 64, 4096]))
    data[begin:end] = bytes(end - begin)
    return data


def _constant(data: bytearray, draw: random.Random) -> bytearray:
    return bytearray(bytes([draw.choice([0, 1, 32, 255])]) * len(data))


def _shifted(data: bytearray, draw: random.Random) -> bytearray:
    position = draw.randrange(len(data) + 1)
    return data[:position] + draw.randbytes(draw.choice([1, 2, 8])) + data[position:]


def _folder(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _fifo(path: Path, draw: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_elsewhere(path: Path, draw: random.Random) -> None:
    elsewhere = Path(f"{path.name}.elsewhere")
    place = path.parent / ".." / elsewhere
    shutil.move(path, place)
    path.symlink_to(Path("..") / elsewhere)


def _dangling(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def _loop(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _device(name: str) -> Change:
    def apply_change(path: Path, draw: random.Random) -> None:
        path.unlink()
        path.symlink_to(name)

    return apply_change


def _swapped(path: Path, draw: random.Random) -> None:
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p != path]
    if others:
        other = draw.choice(others)
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)


def _sparse(path: Path, draw: random.Random) -> None:
    os.truncate(path, 20 << 30)


def _unreadable(path: Path, draw: random.Random) -> None:
    path.chmod(0)


CHANGES: dict[str, Change] = {
    "empty": _bytes(lambda data, draw: b""),
    "truncated": _bytes(lambda data, draw: data[: draw.randrange(len(data) + 1)]),
    "last byte missing": _bytes(lambda data, draw: data[:-1]),
    "bit flipped": _bytes(_flipped),
    "scrambled": _bytes(_scrambled),
    "zeroed": _bytes(_zeroed),
    "one byte only": _bytes(_constant),
    "doubled": _bytes(lambda data, draw: data + data),
    "shifted": _bytes(_shifted),
    "random": _bytes(lambda data, draw: draw.randbytes(len(data))),
    "missing": lambda path, draw: path.unlink(),
    "folder": _folder,
    "fifo": _fifo,
    "link elsewhere": _link_elsewhere,
    "dangling link": _dangling,
    "link to itself": _loop,
    "link to /dev/null": _device("/dev/null"),
    "link to /dev/zero": _device("/dev/zero"),
    "swapped": _swapped,
    "20 GB of nothing": _sparse,
    "unreadable": _unreadable,
}

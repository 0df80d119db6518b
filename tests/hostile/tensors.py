"""Changes of safetensors files: NaN and infinite values, dtypes, shapes, headers."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

from hostile import trees

Header = dict[str, Any]
_VALUES = {"NaN": "nan", "infinite": "inf", "negative infinite": "-inf"}
_TYPES = {"int64": ("I64", "q"), "float64": ("F64", "d"), "uint8": ("U8", "B")}
_SIZES = {"lengthened": 1, "shortened": -1, "huge": 1 << 40, "negative": -(1 << 63)}
# Changes that a reader must detect without a stored digest.
CHANGES = (
    *_VALUES,
    *_TYPES,
    *("complex", "boolean", "float16", "transposed", "flat"),
    *("renamed", "missing", "more", "notes of another type"),
    *(f"header {what}" for what in _SIZES),
)


def change(path: Path, what: str, draw: random.Random) -> None:
    """Change a file in place."""
    header, data = _read(path)
    tensors = _tensors(header, data)
    name = draw.choice(sorted(tensors))
    label, shape, content = tensors[name]
    if what.startswith("header "):
        size = len(json.dumps(header)) + _SIZES[what.removeprefix("header ")]
        path.write_bytes(struct.pack("<Q", size % (1 << 64)) + json.dumps(header).encode() + data)
        return
    if what in _VALUES:
        place = 4 * draw.randrange(len(content) // 4)
        value = struct.pack("<f", float(_VALUES[what]))
        tensors[name] = label, shape, content[:place] + value + content[place + 4 :]
    elif what in ("renamed", "missing"):
        del tensors[name]
        if what == "renamed":
            tensors[f"{name}x"] = label, shape, content
    elif what == "more":
        tensors["unknown.weight"] = tensors[name]
    elif what == "transposed":
        tensors[name] = label, shape[::-1], content
    elif what == "flat":
        tensors[name] = label, [len(content) // 4], content
    elif what == "notes of another type":
        header["__metadata__"] = {"notes": draw.choice(["[]", "nonsense", '{"step": null}', "7"])}
    else:
        tensors[name] = _retyped(tensors[name], what)
    _write(path, tensors, header.get("__metadata__"))


def header_places(path: Path) -> list[trees.Path]:
    """The nodes of a header."""
    return [place for place in trees.node_paths(_read(path)[0]) if place]


def change_header(path: Path, draw: random.Random, *, place: trees.Path, what: str) -> None:
    """Change a node of the header, and keep the tensor data."""
    header, data = _read(path)
    text = trees.apply_change(header, place, what, draw).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


Tensor = tuple[str, list[int], bytes]


def _retyped(tensor: Tensor, what: str) -> Tensor:
    _, shape, content = tensor
    numbers = struct.unpack(f"<{len(content) // 4}f", content)
    if what in _TYPES:
        label, code = _TYPES[what]
        whole = [int(abs(n)) % 256 for n in numbers] if code != "d" else list(numbers)
        return label, shape, struct.pack(f"<{len(whole)}{code}", *whole)
    if what == "complex":
        return "C64", shape, b"".join(struct.pack("<ff", n, 1.0) for n in numbers)
    if what == "float16":
        return "F16", shape, struct.pack(f"<{len(numbers)}e", *numbers)
    return "BOOL", shape, bytes(n > 0 for n in numbers)


def _tensors(header: Header, data: bytearray) -> dict[str, Tensor]:
    return {
        name: (entry["dtype"], entry["shape"], bytes(data[slice(*entry["data_offsets"])]))
        for name, entry in header.items()
        if name != "__metadata__"
    }


def _write(path: Path, tensors: dict[str, Tensor], notes: Any) -> None:
    header: Header = {"__metadata__": notes} if notes else {}
    place, content = 0, b""
    for name, (label, shape, data) in tensors.items():
        header[name] = {"dtype": label, "shape": shape, "data_offsets": [place, place + len(data)]}
        place, content = place + len(data), content + data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


def _read(path: Path) -> tuple[Header, bytearray]:
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + size]), bytearray(data[8 + size :])

"""Damaged copies of files: JSON with one changed field, and truncated or flipped bytes."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from regard.errors import RegardError

WRONG: list[Any] = [
    *(None, True, -1, 0, 1, 2**40, 2**62, 10**30, 1.5, -0.5, 1e308, "", "x", "../x", "a\0b"),
    *([], {}, [None], [[[]]], {"x": 1}, ["x"] * 3, "é" * 300),
]


def paths(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every field, and of the first items of every list."""
    items = tree.items() if isinstance(tree, dict) else []
    if isinstance(tree, list):
        items = [*enumerate(tree)][:2]
    for name, value in items:
        yield (*path, name)
        yield from paths(value, (*path, name))


def altered(tree: Any, path: tuple[Any, ...], change: Callable[[Any, Any], None]) -> Any:
    """A copy with one item changed by `change(container, name)`."""
    result = copy.deepcopy(tree)
    place = result
    for name in path[:-1]:
        place = place[name]
    change(place, path[-1])
    return result


def json_mutations(text: str) -> Iterator[str]:
    """JSON texts with each field missing or changed, with an unknown field, and with odd syntax."""
    tree = json.loads(text)
    for path in paths(tree):
        yield json.dumps(altered(tree, path, lambda place, name: place.pop(name)))
        for value in WRONG:
            yield json.dumps(
                altered(tree, path, lambda place, name, v=value: place.__setitem__(name, v))  # type: ignore[misc]
            )
    if isinstance(tree, dict):
        yield json.dumps({**tree, "unknown": 1})
        name = next(iter(tree))
        yield text.replace("{", f'{{"{name}": 0, ', 1)
        yield text.replace("{", '{"x": NaN, ', 1)
    yield "[" * 100_000
    yield '{"a":' * 2000 + "1" + "}" * 2000


def byte_mutations(content: bytes, count: int, seed: int = 0) -> Iterator[bytes]:
    """The content truncated, empty, zeroed, extended, or with flipped bytes."""
    draw = random.Random(seed)
    yield b""
    yield content[:-1]
    yield content + b"\0"
    yield bytes(len(content))
    for number in range(count):
        if number % 4 == 0:
            yield content[: draw.randrange(len(content))]
            continue
        changed = bytearray(content)
        for _ in range(draw.randint(1, 3)):
            limit = len(changed) if number % 2 else min(len(changed), 600)  # headers come first
            changed[draw.randrange(limit)] ^= 1 << draw.randrange(8)
        yield bytes(changed)


def outcomes(
    path: Path, contents: Iterator[bytes], read: Callable[[], Any]
) -> Iterator[tuple[bytes, Any]]:
    """The results for contents that are accepted; any error but a `RegardError` fails the test."""
    original = path.read_bytes()
    try:
        for content in contents:
            path.write_bytes(content)
            with suppress(RegardError):
                yield content, read()
    finally:
        path.write_bytes(original)


def some(texts: Iterator[str], count: int, seed: int = 0) -> Iterator[bytes]:
    """A sample of mutations, as bytes."""
    every = [*texts]
    draw = random.Random(seed)
    return (text.encode() for text in draw.sample(every, min(count, len(every))))

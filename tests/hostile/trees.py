"""Changes of JSON: every node, with unexpected values."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
_FEW = 8  # children of one node that are changed; a vocabulary has thousands
_PLACEHOLDER = "@mark@"  # replaced by text that a JSON library cannot write
_DELETED = object()
LITERALS = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "one": "1",
    "negative": "-1",
    "fraction": "0.5",
    "huge": "1000000000000",
    "2^70": str(2**70),
    "5000 digits": "1" * 5000,
    "NaN": "NaN",
    "Infinity": "Infinity",
    "1e999": "1e999",
    "text": '"text"',
    "empty text": '""',
    "number as text": '"3"',
    "long text": '"' + "a" * 100_000 + '"',
    "lone surrogate": '"\\ud800"',
    "nul": '"\\u0000"',
    "path": '"../../../etc/passwd"',
    "list": "[]",
    "list of null": "[null]",
    "object": "{}",
    "deep": "[" * 50_000 + "]" * 50_000,
    "deep objects": '{"a":' * 20_000 + "1" + "}" * 20_000,
}
CHANGES = (*LITERALS, "missing", "doubled", "renamed", "more", "neighbour")
WHOLE = {
    "bom": lambda text: b"\xef\xbb\xbf" + text,
    "utf-16": lambda text: text.decode().encode("utf-16"),
    "trailing text": lambda text: text + b"x",
    "twice": lambda text: text + text,
    "comment": lambda text: b"// comment\n" + text,
    "single quotes": lambda text: text.replace(b'"', b"'"),
    "latin-1": lambda text: text.replace(b"e", b"\xe9"),
}


def node_paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    """Every node; of a node with many children, the first and the last."""
    yield path
    children = list(tree.items()) if isinstance(tree, dict) else []
    if isinstance(tree, list):
        children = [*enumerate(tree)]
    if len(children) > 4 * _FEW:
        children = [*children[: _FEW // 2], *children[-_FEW // 2 :]]
    for name, child in children:
        yield from node_paths(child, (*path, name))


def apply_change(tree: Any, path: Path, change: str, draw: random.Random) -> str:
    """The JSON text of a tree with one changed node."""
    tree = json.loads(json.dumps(tree))
    literal, key = LITERALS.get(change, ""), json.dumps(path[-1]) if path else ""
    if not path:
        return literal or json.dumps(tree)
    parent = tree
    for name in path[:-1]:
        parent = parent[name]
    name, value = path[-1], parent[path[-1]]
    if change == "missing":
        del parent[name]
    elif change == "renamed" and isinstance(parent, dict):
        parent[f"{name}x"] = parent.pop(name)
    elif change == "more":
        if isinstance(value, list):
            value.extend(value[:1] or [1])
        elif isinstance(value, dict):
            value["unknown"] = 1
        else:
            parent[name] = value + 1 if isinstance(value, int | float) else f"{value}x"
    elif change == "neighbour":
        siblings = [*parent.values()] if isinstance(parent, dict) else parent
        parent[name] = draw.choice(siblings)
    elif change == "doubled":
        parent[name] = _PLACEHOLDER
        literal = f"{json.dumps(value)}, {key}: null" if isinstance(parent, dict) else "1, 2"
    else:
        parent[name] = _PLACEHOLDER
    return json.dumps(tree).replace(json.dumps(_PLACEHOLDER), literal)


def dotted(path: Path) -> str:
    """The dotted path of a node."""
    return ".".join(str(name)[:90].replace("/", "|") for name in path) or "root"

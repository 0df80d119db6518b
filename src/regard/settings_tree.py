"""Settings as nested dictionaries: convert, override, merge, compare and write them."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.config import Settings, Tree
from regard.errors import ConfigError

_MAX_DEPTH = 10  # nested tables
_MAX_SHOWN = 100  # characters of a name in a message


def to_tree(settings: Settings) -> Tree:
    """Settings as nested dictionaries in the form of JSON, from which `build` restores them."""

    def with_lists(items: Iterable[tuple[str, Any]]) -> Tree:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in items}

    return dataclasses.asdict(settings, dict_factory=with_lists)


def apply_overrides(tree: Tree, assignments: Iterable[str]) -> Tree:
    """A copy of `tree` with each assignment "a.b=value"; the last one of a name wins.

    A value that is not TOML is text.
    """
    tree = merge_trees(tree, {})
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals or not path.strip():
            raise ConfigError(
                f"--set is {assignment!r}, but must be of the form section.name=value."
            )
        change: Any = _parse_value(text.strip())
        names = path.strip().split(".")
        if len(names) > _MAX_DEPTH:
            raise ConfigError(
                f"--set {path[:_MAX_SHOWN]}: settings are not nested {len(names) - 1} levels deep. "
                "`regard show settings` lists the names."
            )
        for name in reversed(names):
            change = {name: change}
        tree = merge_trees(tree, change)
    return tree


def _parse_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too long or deeply nested
        return text


def merge_trees(first: Mapping[str, Any], second: Mapping[str, Any]) -> Tree:
    """Merge two trees recursively; values of the second override those of the first."""
    result = dict(first)
    for name, value in second.items():
        if isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = merge_trees(result[name], value)
        else:
            result[name] = value
    return result


def nest_names(values: Mapping[str, Any]) -> Tree:
    """Convert dotted names to nested tables."""
    tree: Tree = {}
    for name, value in values.items():
        for part in reversed(name.split(".")):
            value = {part: value}
        tree = merge_trees(tree, value)
    return tree


def tree_differences(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[str]:
    """Each leaf in which two trees differ, as "path: old -> new"."""
    changes: list[str] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name), new.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            changes += tree_differences(a, b, f"{path}{name}.")
        elif a != b:
            changes.append(f"{path}{name}: {a} -> {b}")
    return changes


def format_toml(tree: Mapping[str, Any]) -> str:
    """A tree as TOML, from which `build` restores the settings; None is the text "none"."""
    return "\n".join(_toml_lines(tree, "")) + "\n"


def _toml_lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """The values of a table, then its tables."""
    for name, value in table.items():
        if not isinstance(value, Mapping):
            yield f"{_toml_name(name)} = {_toml_value(value)}"
    for name, value in table.items():
        if isinstance(value, Mapping):
            header = f"{path}{_toml_name(name)}"
            yield from ("", f"[{header}]", *_toml_lines(value, f"{header}."))


def _toml_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    text = json.dumps("none" if value is None else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007F")  # which JSON allows in a string

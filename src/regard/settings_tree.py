"""Settings as nested dictionaries: convert, override, merge and compare them."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
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

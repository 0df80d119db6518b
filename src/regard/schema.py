"""The only reader of JSON files: bounded, strict, typed and versioned.

`JsonReader.table` parses one object: UTF-8, bounded size and depth, no repeated names, no NaN or
Infinity, no integer beyond 64 bits, no lone surrogate. `JsonReader.build` checks it against a class
of `Settings`, whose annotations say the type and the bounds of each field. Every error names the
file, the dotted path of the field and the problem.

Unknown fields of our own files are refused: a field that this version does not have may change what
the others mean. What a later version may ignore needs no new field, and what it may not needs a new
`format`. Files of other programs are read with `typed`, which checks the fields that we use.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Settings, Tree, build
from regard.errors import ConfigError, RegardError
from regard.regular import read_regular

S = TypeVar("S", bound=Settings)
_DEPTH = 64  # levels of nesting
_LARGEST = 2**63 - 1
_DAMAGED = "is damaged or from another version"
MEBIBYTE = 2**20


class _UnusableError(ValueError):
    """What is wrong with a JSON text beside its syntax."""


@dataclass(frozen=True)
class JsonReader:
    """How a kind of file is read, and what is said where it cannot be."""

    error: type[RegardError]
    remedy: str
    limit: int = 16 * MEBIBYTE
    nonfinite_as_null: bool = False  # for files of which earlier versions wrote NaN
    wide_integers: bool = False  # for files of others: 10**30 stands for "any length" there

    def table(self, path: Path) -> Tree:
        """The JSON object in a regular file."""
        return self.parse(read_regular(path, self.limit), path)

    def parse(self, content: bytes, where: Path | str) -> Tree:
        """The JSON object in a text; `where` names the text in errors."""
        value = self._value(content, where)
        if not isinstance(value, dict):
            raise self._damaged(where, "not a JSON object")
        return value

    def texts(self, path: Path) -> list[str]:
        """The JSON list of texts in a regular file."""
        value = self._value(read_regular(path, self.limit), path)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._damaged(path, "not a JSON list of texts")
        return value

    def _value(self, content: bytes, where: Path | str) -> Any:
        """Any JSON value within the bounds."""
        try:
            text = content.decode("utf-8-sig")
            value = json.loads(
                text,
                object_pairs_hook=_distinct,
                parse_int=self._integer,
                parse_float=self._real,
                parse_constant=self._constant,
            )
            _refuse_depth(value)
            if "\\ud" in text or "\\uD" in text:
                json.dumps(value, ensure_ascii=False).encode()  # raises if a surrogate is alone
        except RecursionError:
            raise self._damaged(where, f"nested more than {_DEPTH} levels deep") from None
        except ValueError as error:
            raise self._damaged(where, _reason(error)) from None
        return value

    def _integer(self, text: str) -> int | float | None:
        if len(text) <= 20 and -_LARGEST <= int(text) <= _LARGEST:
            return int(text)
        if self.wide_integers:
            return self._real(text)
        raise _UnusableError(f"the integer {text[:20]}... has more than 64 bits")

    def _real(self, text: str) -> float | None:
        number = float(text)
        if math.isfinite(number):
            return number
        self._constant(text)
        return None

    def _constant(self, name: str) -> None:
        if not self.nonfinite_as_null:
            raise _UnusableError(f"{name[:20]} is not a finite number")

    def build(self, cls: type[S], tree: Any, where: Path | str, path: str = "") -> S:
        """An instance of a class of settings; `path` is where in the file the table stands."""
        if not isinstance(tree, Mapping):
            raise self.wrong(where, f"{path.rstrip('.') or 'the file'} must be a table")
        try:
            return build(cls, tree, path, f"{where} {_DAMAGED}")
        except ConfigError as error:
            raise self.error(f"{error}. {self.remedy}") from None

    def versioned(self, cls: type[S], path: Path, known: int) -> tuple[S, Tree]:
        """A file of our own, checked, and as it stands there; `format` must be the known one."""
        tree = self.table(path)
        self.refuse_other_format(tree, path, known)
        return self.build(cls, tree, path), tree

    def refuse_other_format(self, tree: Tree, path: Path, known: int) -> None:
        """The field `format` must be the known number."""
        found = tree.get("format")
        if type(found) is not int or found != known:
            raise self.error(
                f"{path} has format {found!r}, and this regard reads {known}. {self.remedy}"
            )

    def wrong(self, where: Path | str, problem: str) -> RegardError:
        """An error about what a file says."""
        return self.error(f"{where} {_DAMAGED}: {problem}. {self.remedy}")

    def _damaged(self, where: Path | str, reason: str) -> RegardError:
        return self.error(f"{where} is damaged ({reason}). {self.remedy}")

    def typed(self, tree: Mapping[str, Any], defaults: Mapping[str, Any], where: Path) -> Tree:
        """The defaults, with what a file of another program says; each value has its type.

        A default of None stands for an integer that may be missing.
        """
        for name, default in defaults.items():
            if name in tree and not _same_type(tree[name], default):
                kind = "integer" if default is None else _TYPES[type(default)]
                shown = json.dumps(tree[name])
                raise self.wrong(where, f"{name} is {shown[:100]}, and must be {kind}")
        return {**defaults, **tree}


_TYPES = {bool: "true | false", int: "integer", float: "number", str: "text"}
_TYPES |= {list: "a list", dict: "a table"}


def _same_type(value: Any, default: Any) -> bool:
    if default is None:
        return value is None or type(value) is int
    if type(default) is float:
        return type(value) in (int, float)
    return type(value) is type(default)


def _distinct(pairs: list[tuple[str, Any]]) -> Tree:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _UnusableError(f"{twice!r} stands there twice")
    return table


def _refuse_depth(value: Any) -> None:
    """Raise if containers are nested too deeply."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_DEPTH):
        items = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for some in items for item in some if isinstance(item, dict | list)]
    if level:
        raise _UnusableError(f"nested more than {_DEPTH} levels deep")


def _reason(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "it has half of a surrogate pair"
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return str(error)

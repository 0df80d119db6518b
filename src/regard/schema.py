"""Read and validate JSON files. All JSON files are read here.

`JsonReader.read_object` parses one object: UTF-8, bounded size and depth, no duplicate names, no
NaN or Infinity, no integer beyond 64 bits, no lone surrogate. `JsonReader.build` validates it
against a subclass of `Settings`, whose annotations declare the type and bounds of each field. Every
error names the file, the dotted path of the field and the problem.

Unknown fields in our own files are refused: a field that this version does not have may change the
meaning of the others. An incompatible change needs a new `format`. Files of other programs are read
with `check_types`, which checks only the fields that we use.
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
from regard.regular_files import read_regular_file

S = TypeVar("S", bound=Settings)
_MAX_DEPTH = 64
_MAX_INTEGER = 2**63 - 1
_DAMAGED = "is damaged or from another version"
MEBIBYTE = 2**20


class _InvalidJsonError(ValueError):
    """A problem of a JSON text other than its syntax."""


@dataclass(frozen=True)
class JsonReader:
    """Reads one kind of JSON file; `error` is raised for invalid files, with `remedy` as advice."""

    error: type[RegardError]
    remedy: str
    limit: int = 16 * MEBIBYTE
    nonfinite_as_null: bool = False  # for files in which earlier versions wrote NaN
    wide_integers: bool = False  # for files of other programs, where 10**30 means "unlimited"

    def read_object(self, path: Path) -> Tree:
        """Read a JSON object from a regular file."""
        return self.parse(read_regular_file(path, self.limit), path)

    def parse(self, content: bytes, source: Path | str) -> Tree:
        """Parse a JSON object from bytes; `source` names it in errors."""
        value = self._parse_value(content, source)
        if not isinstance(value, dict):
            raise self._syntax_error(source, "not a JSON object")
        return value

    def read_strings(self, path: Path) -> list[str]:
        """Read a JSON list of strings from a regular file."""
        value = self._parse_value(read_regular_file(path, self.limit), path)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._syntax_error(path, "not a JSON list of strings")
        return value

    def _parse_value(self, content: bytes, source: Path | str) -> Any:
        """Parse any JSON value within the limits."""
        try:
            text = content.decode("utf-8-sig")
            value = json.loads(
                text,
                object_pairs_hook=_refuse_duplicates,
                parse_int=self._parse_int,
                parse_float=self._parse_float,
                parse_constant=self._parse_constant,
            )
            _refuse_depth(value)
            if "\\ud" in text or "\\uD" in text:
                json.dumps(value, ensure_ascii=False).encode()  # raises on a lone surrogate
        except RecursionError:
            raise self._syntax_error(source, f"nested more than {_MAX_DEPTH} levels deep") from None
        except ValueError as error:
            raise self._syntax_error(source, _describe_error(error)) from None
        return value

    def _parse_int(self, text: str) -> int | float | None:
        if len(text) <= 20 and -_MAX_INTEGER <= int(text) <= _MAX_INTEGER:
            return int(text)
        if self.wide_integers:
            return self._parse_float(text)
        raise _InvalidJsonError(f"the integer {text[:20]}... has more than 64 bits")

    def _parse_float(self, text: str) -> float | None:
        number = float(text)
        if math.isfinite(number):
            return number
        self._parse_constant(text)
        return None

    def _parse_constant(self, name: str) -> None:
        if not self.nonfinite_as_null:
            raise _InvalidJsonError(f"{name[:20]} is not a finite number")

    def build(
        self, cls: type[S], tree: Any, source: Path | str, path: str = "", *, notify: bool = True
    ) -> S:
        """Validate a table as a settings class; `path` is the dotted path of the table."""
        if not isinstance(tree, Mapping):
            raise self.content_error(source, f"{path.rstrip('.') or 'the file'} must be a table")
        try:
            where = f"{source} (of an earlier version, usable unchanged)" if notify else None
            return build(cls, tree, path, f"{source} {_DAMAGED}", where)
        except ConfigError as error:
            raise self.error(f"{error}. {self.remedy}") from None

    def read_versioned(self, cls: type[S], path: Path, known: int) -> tuple[S, Tree]:
        """Read a file of ours with a known `format`: the validated fields, and the JSON object."""
        tree = self.read_object(path)
        self.refuse_other_format(tree, path, known)
        return self.build(cls, tree, path), tree

    def refuse_other_format(self, tree: Tree, path: Path, known: int) -> None:
        """Raise an error unless the field `format` is the known number."""
        format_ = tree.get("format")
        if type(format_) is not int or format_ != known:
            raise self.error(
                f"{path} has format {format_!r}; this version of regard reads format {known}. "
                f"{self.remedy}"
            )

    def content_error(self, source: Path | str, problem: str) -> RegardError:
        """An error about the content of a file."""
        return self.error(f"{source} {_DAMAGED}: {problem}. {self.remedy}")

    def _syntax_error(self, source: Path | str, reason: str) -> RegardError:
        return self.error(f"{source} is damaged ({reason}). {self.remedy}")

    def check_types(
        self, tree: Mapping[str, Any], defaults: Mapping[str, Any], source: Path
    ) -> Tree:
        """Check the types of fields of another program's file; the result includes the defaults.

        A default of None means an optional integer.
        """
        for name, default in defaults.items():
            if name in tree and not _same_type(tree[name], default):
                kind = "integer" if default is None else _TYPES[type(default)]
                value = json.dumps(tree[name])
                raise self.content_error(source, f"{name} is {value[:100]}, but must be {kind}")
        return {**defaults, **tree}


_TYPES = {bool: "true | false", int: "integer", float: "number", str: "text"}
_TYPES |= {list: "a list", dict: "a table"}


def _same_type(value: Any, default: Any) -> bool:
    if default is None:
        return value is None or type(value) is int
    if type(default) is float:
        return type(value) in (int, float)
    return type(value) is type(default)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> Tree:
    table = dict(pairs)
    if len(table) < len(pairs):
        duplicate, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise _InvalidJsonError(f"{duplicate!r} occurs twice")
    return table


def _refuse_depth(value: Any) -> None:
    """Raise an error if containers are nested too deeply."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(_MAX_DEPTH):
        items = (
            container.values() if isinstance(container, dict) else container for container in level
        )
        level = [item for values in items for item in values if isinstance(item, dict | list)]
    if level:
        raise _InvalidJsonError(f"nested more than {_MAX_DEPTH} levels deep")


def _describe_error(error: ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start:,} is not UTF-8"
    if isinstance(error, UnicodeEncodeError):
        return "it has a lone surrogate"
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return str(error)

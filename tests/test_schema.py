"""The JSON reader: files are validated by their schema, or refused with a message."""

from __future__ import annotations

import json
import os
import random
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import Ge, Le, Settings
from regard.errors import ModelError, RegardError, StorageError
from regard.json_text import dumps
from regard.regular_files import open_regular_file, path_inside, read_regular_file
from regard.schema import JsonReader
from regard.settings_tree import to_tree

READER = JsonReader(ModelError, "Copy it again.", limit=100_000)


@dataclass(frozen=True)
class Inner(Settings):
    """A nested table."""

    names: tuple[str, ...] = ("a", "b")
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Outer(Settings):
    """A file."""

    format: int
    width: Annotated[int, Ge(1), Le(1000)] = 5
    share: Annotated[float | None, Ge(0), Le(1)] = None
    inner: Inner = field(default_factory=Inner)
    flag: bool = False


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_written_json_is_standard_json(value: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    try:
        text = dumps({"value": value})
        text.encode()
    except UnicodeEncodeError:
        return  # a lone surrogate cannot be encoded
    json.loads(text, parse_constant=refuse)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_any_table_is_built_or_refused(value: Any) -> None:
    for name in ("format", "width", "share", "inner", "flag", "other"):
        text = json.dumps({"format": 1, name: value}).encode()
        with suppress(ModelError):
            built = READER.build(Outer, READER.parse(text, "a.json"), "a.json")
            assert READER.build(Outer, to_tree(built), "a.json") == built


@given(st.binary() | st.text().map(str.encode))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    with suppress(ModelError):
        READER.parse(content, "a.json")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": -Infinity}', "-Infinity is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": 123456789012345678901}', "more than 64 bits"),
        (b'{"a": ' + b"9" * 5000 + b"}", "more than 64 bits"),
        (b'{"a": 1, "b": 2, "a": 3}', "'a' occurs twice"),
        (b'{"a": "\\ud800"}', "a lone surrogate"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", "nested more than 64"),
        (b"[" * 99_000, "nested more than 64"),
        (b"[]", "not a JSON object"),
        (b'{"a": 1', "line 1, column 8"),
        (b"", "line 1, column 1"),
    ],
)
def test_invalid_json_is_refused_with_the_problem(content: bytes, problem: str) -> None:
    with pytest.raises(ModelError, match=problem):
        READER.parse(content, "a.json")


def test_surrogate_pair_is_one_character() -> None:
    assert READER.parse(b'{"a": "\\ud83d\\ude00"}', "a.json") == {"a": "😀"}


def test_nan_of_earlier_versions_is_read_as_null() -> None:
    lenient = JsonReader(ModelError, "", nonfinite_as_null=True)
    assert lenient.parse(b'{"a": NaN, "b": -1e999}', "a.json") == {"a": None, "b": None}


def test_wide_integers_of_other_programs_are_read() -> None:
    lenient = JsonReader(ModelError, "", wide_integers=True)
    assert lenient.parse(b'{"model_max_length": 1' + b"0" * 30 + b"}", "a.json") == {
        "model_max_length": 1e30
    }
    with pytest.raises(ModelError, match="not a finite number"):
        lenient.parse(b'{"a": 1' + b"0" * 400 + b"}", "a.json")


@pytest.mark.parametrize("format_", ["1", True, 1.0, None, 2, [1]])
def test_other_formats_are_refused(tmp_path: Path, format_: Any) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"format": format_}))
    with pytest.raises(ModelError, match=f"{path} has format .* reads format 1"):
        READER.read_versioned(Outer, path, 1)


def test_errors_name_fields_by_their_paths(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": 1, "inner": {"counts": {"x": "1"}, "names": [1]}, "widht": 2}')
    with pytest.raises(ModelError) as raised:
        READER.read_versioned(Outer, path, 1)
    for part in (
        "inner.names[0] is 1",
        "inner.counts.x is",
        "did you mean width",
        str(path),
        "Copy it again.",
    ):
        assert part in str(raised.value)


def test_typed_checks_the_types_of_defaults() -> None:
    defaults = {"width": 4, "rate": 0.1, "id": None, "name": "x", "on": True}
    table = READER.check_types({"rate": 1, "id": 3, "more": {}}, defaults, Path("a.json"))
    assert table == {**defaults, "rate": 1, "id": 3, "more": {}}
    for name, wrong in (("width", "4"), ("width", True), ("rate", "1"), ("id", [1]), ("on", 1)):
        with pytest.raises(ModelError, match=f"a.json is damaged .*: {name} is"):
            READER.check_types({name: wrong}, defaults, Path("a.json"))


def test_irregular_and_large_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero"), tmp_path):
        with pytest.raises(StorageError, match="must be a regular file"):
            open_regular_file(path)
    with pytest.raises(StorageError, match="cannot be read"):
        open_regular_file(tmp_path / "missing")
    with pytest.raises(StorageError, match="cannot be read"):
        open_regular_file(tmp_path / ("x" * 300))
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(StorageError, match="5 bytes, but must have at most 4"):
        read_regular_file(tmp_path / "a", 4)


def test_file_names_outside_the_folder_are_refused(tmp_path: Path) -> None:
    assert path_inside(tmp_path, "a/b.bin", tmp_path) == tmp_path / "a" / "b.bin"
    for name in ("", "/etc/passwd", "../a", "a/../../b", "a\0b", "..", "a\\..\\b"):
        with pytest.raises(RegardError, match="outside"):
            path_inside(tmp_path, name, tmp_path)


def test_flipped_bytes_do_not_crash_the_reader() -> None:
    text = json.dumps(to_tree(Outer(1, inner=Inner(counts={"x": 1})))).encode()
    rng = random.Random(1)
    for _ in range(2000):
        content = bytearray(text)
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        with suppress(ModelError):
            READER.build(Outer, READER.parse(bytes(content), "a.json"), "a.json")

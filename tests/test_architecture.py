"""The house: who may import whom, how long a file may be, what it may be called."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

import regard

SOURCE = Path(regard.__file__).parent
# Reading order: each imports only what stands above it.
ORDER = [
    *[
        "version",
        "errors",
        "json_text",
        "regular",
        "remedies",
        "files",
        "recognize",
        "bounds",
        "config",
        "schema",
        "devices",
        "memory",
        "recording",
        "processes",
        "plugins",
    ],
    *["text", "data", "attention", "layers", "models", "exchange", "decoding", "evaluation"],
    *["training", "plots", "cli"],
]
FILES = sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    """The folder, or file at the top, that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The rooms that a file imports from, wherever in the file it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "regard":
            names.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "regard":
            names |= {f"regard.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("regard.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py") and path.parent == SOURCE:
        return
    allowed = set(ORDER[: ORDER.index(room(path)) + 1])
    if room(path) == "training":
        allowed -= {"exchange", "decoding", "evaluation"}  # the command hands it a validator
    assert imported(path) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_has_one_topic(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}
    assert ast.get_docstring(ast.parse(text)), "a file says what it is about"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_function_is_a_monster(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and path.stem not in {
            "evaluate",
            "prepare",
        }:
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 60, node.name


def test_nothing_is_unpickled() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text
        assert "import pickle" not in text


def test_all_names_exist() -> None:
    import importlib

    for path in FILES:
        if path.stem.endswith(("kernel", "kernels")) and find_spec("triton") is None:
            continue  # imported only where there is Triton
        module = (
            importlib.import_module(
                ".".join(["regard", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
                    ".__init__"
                )
            )
            if path.name != "__main__.py"
            else regard
        )
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name)

"""Retired words do not return: docs/concepts/glossary.md has the terms that replace them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = [
    path
    for folder in ("src", "tests", "benchmarks", "docs")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PAGES = [
    path
    for path in [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    if path.name not in ("glossary.md", "CHANGELOG.md") and "zh" not in path.parts
]
# Not the name of a value, parameter or function, as they do not say what it is.
RETIRED_NAMES = {"found", "one", "own", "told", "said", "taken", "done", "here", "there", "shown"}
# Not a part of any name: PascalCase and snake_case are split into words.
RETIRED_PARTS = {
    *("trail", "sight", "pace", "gaze", "begun", "recut", "recutter", "foretell", "lesson"),
    *("passage", "doctor", "verdict", "remembering", "recordable", "team", "rival", "entrant"),
    *("engine", "gains", "speller", "portion"),
}
# A field of store.json, and a former keyword.
ALLOWED = {("data/content.py", "found"), ("api.py", "engine")}
# Not in documentation, docstrings, messages or help.
RETIRED_PHRASES = (
    *("start mark", "end mark", "foretell", "cuts text", "knows no", "nobody", "whoever"),
    *("as it comes", "where it looks", "was ever trained", "longest gradient", "rivals"),
    *("the doctor", "recutting", "is told", "are told", "somebody"),
)


def defined_names(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Names that a module defines: variables, parameters, functions, classes and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def words_of(name: str) -> set[str]:
    """The words of an identifier: "BeamTrail" and "beam_trail" are "beam" and "trail"."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def texts(path: Path) -> Iterator[tuple[str, int]]:
    """The strings of a module (docstrings, messages, help) or the lines of a page."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, node.lineno
    else:
        yield from ((line, number) for number, line in enumerate(content.splitlines(), 1))


def test_retired_names_are_not_defined() -> None:
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        for name, line in defined_names(ast.parse(path.read_text(encoding="utf-8")))
        if not any(path.match(file) and name == allowed for file, allowed in ALLOWED)
        and (name.strip("_") in RETIRED_NAMES or words_of(name) & RETIRED_PARTS)
    ]
    assert not problems, "\n".join(problems)


def test_retired_phrases_are_not_written() -> None:
    this = Path(__file__).resolve()
    problems = [
        f"{path.relative_to(ROOT)}:{line}: {phrase}"
        for path in [*SOURCES, *PAGES]
        if path != this
        for text, line in texts(path)
        for phrase in RETIRED_PHRASES
        if re.search(rf"\b{phrase}\b", text, re.IGNORECASE)
    ]
    assert not problems, "\n".join(problems)

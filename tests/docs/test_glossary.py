"""The modules, functions, settings and options that the glossary and start/find.md name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from docs.architecture_page import SOURCE
from docs.generated import DOCS
from regard.cli import build_app
from regard.config import all_paths
from regard.training.config import RunConfig

GLOSSARY, FIND = "concepts/glossary.md", "start/find.md"
# What users of other toolkits look for
FEATURES = ["label smoothing", "CUDA graphs", "beam search loop", "KV cache", "LoRA", "CTC loss"]
FEATURES += ["learning-rate schedule", "positional encoding", "DDP", "subword regularization"]
FEATURES += ["checkpoint averaging", "gradient accumulation"]


def table_rows(page: str) -> list[list[str]]:
    """Return the cells of all table rows of a page, without the headings."""
    lines = [line for line in (DOCS / page).read_text("utf-8").splitlines() if line[:1] == "|"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] not in ("term", "feature", "---")]


def code_spans(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@cache
def definitions(module: str) -> set[str]:
    """Return the names that a module defines or imports."""
    tree = ast.parse((SOURCE / module).read_text(encoding="utf-8"))
    names = {
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    kinds = ast.FunctionDef | ast.ClassDef
    return names | {node.name for node in ast.walk(tree) if isinstance(node, kinds)}


def options(command: Any) -> Iterator[str]:
    """Yield the names of a command, of the commands below it, and of all their options."""
    for param in command.params:
        yield from (*param.opts, *param.secondary_opts)
    for name, below in getattr(command, "commands", {}).items():
        yield f"regard {name}"
        yield from options(below)
        yield from (f"regard {name} {inner}" for inner in getattr(below, "commands", {}))


@pytest.mark.parametrize("page", [GLOSSARY, FIND])
def test_modules_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    modules = re.findall(r"`((?!tests)[a-z0-9_/]+\.py)`", text)
    assert len(modules) > 50
    assert [name for name in modules if not (SOURCE / name).is_file()] == []


def test_functions_and_classes_exist() -> None:
    for _, code, *_ in table_rows(FIND):
        for part in code.split(";"):
            modules = [span for span in code_spans(part) if span.endswith(".py")]
            names = {span for span in code_spans(part) if not span.endswith(".py")}
            assert modules, part
            assert names <= {name for module in modules for name in definitions(module)}, part


def test_settings_and_options_exist() -> None:
    known = {*all_paths(RunConfig), *options(typer.main.get_command(build_app())), "regard"}
    used = {span for _, _, setting, _ in table_rows(FIND) for span in code_spans(setting)}
    assert used - known == set()


@pytest.mark.parametrize("feature", FEATURES)
def test_features_are_listed(feature: str) -> None:
    assert any(feature in row[0] for row in table_rows(FIND))


def test_terms_are_unique() -> None:
    terms = [row[0] for row in table_rows(GLOSSARY)]
    assert len(terms) == len(set(terms)) > 60

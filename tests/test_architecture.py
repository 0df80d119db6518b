"""Which package imports which, and how long files, functions and signatures are."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import regard
from regard.models import Model, ModelConfig

SOURCE = Path(regard.__file__).parent
# Reading order: each package or module at the top imports only what stands above it.
ORDER = [
    *["version", "errors", "json_text", "regular", "remedies", "files", "recognize", "bounds"],
    *["config", "option_sets", "schema", "devices", "memory", "recording", "processes"],
    *["notices", "progress", "plugins"],
    *["text", "data", "attention", "layers", "models", "exchange", "decoding", "evaluation"],
    *["training", "tasks", "plots", "api", "cli"],
]
# Where kinds of models are known by their names.
KNOW_KINDS = {"models", "exchange", "tasks"}
MOST_LINES, MOST_LINES_OF_FUNCTIONS, MOST_PARAMETERS = 400, 60, 10
MANY_PARAMETERS = {"attend_ragged"}  # the kernels' interface
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def package(path: Path) -> str:
    """The folder, or module at the top, that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.Module) -> set[str]:
    """The packages that a file imports from, wherever in the file it does."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module != "regard":
            names.add(node.module)
        elif isinstance(node, ast.ImportFrom) and node.module == "regard":
            names |= {f"regard.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("regard.")}


def functions() -> Iterator[tuple[str, Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """All functions, with a name to find them by."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}: {node.name}", path, node


def test_packages_import_only_packages_above_them() -> None:
    for path, tree in TREES.items():
        if path.name in ("__init__.py", "__main__.py") and path.parent == SOURCE:
            continue
        allowed = {*ORDER[: ORDER.index(package(path)) + 1]}
        if package(path) == "training":
            allowed -= {"exchange", "decoding", "evaluation"}  # a task hands it what it needs
        assert imported(tree) <= allowed, path


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {
        ".".join(["regard", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): tree
        for path, tree in TREES.items()
    }
    graph = {}
    for name, tree in names.items():
        found = set()
        for node in tree.body:  # what a function imports, it imports late
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
                found |= inner or ({node.module} & names.keys())
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names} & names.keys()
        graph[name] = found - {name, "regard"}
    graph["regard"] = set()  # what it shows is imported when it is used
    [*TopologicalSorter(graph).static_order()]  # raises an error that names the circle


def test_files_have_one_topic() -> None:
    for path, tree in TREES.items():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path
        assert path.stem not in {"utils", "util", "helpers", "common", "misc"}, path
        assert ast.get_docstring(tree), f"{path} does not say what it is about"


def test_functions_are_short_and_have_few_parameters() -> None:
    for name, path, node in functions():
        assert node.end_lineno is not None
        assert node.end_lineno - node.lineno < MOST_LINES_OF_FUNCTIONS, name
        if "kernel" in path.stem or node.name in MANY_PARAMETERS:
            continue
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        own = [parameter for parameter in given if parameter.arg not in ("self", "cls")]
        assert len(own) <= MOST_PARAMETERS, name


def test_kinds_of_models_are_not_compared_elsewhere() -> None:
    compared = re.compile(r"config\.kind\b\s*(==|!=|in\b|not in\b)")
    for path in FILES:
        if package(path) in KNOW_KINDS | {"text"}:  # a tokenizer has a kind, too
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "tokenizers.config.kind" not in line:
                assert not compared.search(line), f"{path}:{number}"


def test_models_are_not_probed_elsewhere() -> None:
    """What a kind can do, its settings class declares; nobody asks for its class or attributes."""
    classes = {
        name
        for module in Path(regard.models.__file__).parent.glob("*.py")
        for name, value in vars(importlib.import_module(f"regard.models.{module.stem}")).items()
        if isinstance(value, type) and issubclass(value, Model | ModelConfig)
    }
    assert "Transformer" in classes
    for path, tree in TREES.items():
        if package(path) in KNOW_KINDS:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            about, call = [*map(ast.unparse, node.args)], f"{path}:{node.lineno}"
            if node.func.id in ("isinstance", "issubclass"):
                asked = {*re.findall(r"\w+", about[1])}
                assert not asked & classes, call
            elif node.func.id == "hasattr" or (node.func.id == "getattr" and len(about) == 3):
                assert not re.search(r"model|config|folder|batch", about[0]), call


def test_modules_are_found_from_test_files() -> None:
    """By their names, or by tests/mirror.toml."""
    tests = Path(__file__).parent
    elsewhere = tomllib.loads((tests / "mirror.toml").read_text(encoding="utf-8"))
    assert all((tests / name).is_file() for name in elsewhere)
    listed = {module for modules in elsewhere.values() for module in modules}
    for path in FILES:
        module = path.relative_to(SOURCE).with_suffix("")
        own = (tests / module.parent / f"test_{module.name}.py").is_file()
        assert module.name.startswith("__") or own != (module.as_posix() in listed), module
        listed.discard(module.as_posix())
    assert not listed, "these modules do not exist"


def test_nothing_is_unpickled() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text
        assert "import pickle" not in text


def test_all_names_exist() -> None:
    for path in FILES:
        if path.stem.endswith(("kernel", "kernels")) and find_spec("triton") is None:
            continue  # imported only where there is Triton
        if path.name == "__main__.py":
            continue
        parts = ["regard", *path.relative_to(SOURCE).with_suffix("").parts]
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), f"{path}: {name}"

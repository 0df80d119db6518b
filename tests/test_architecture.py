"""Import order of packages, and maximum lengths of files, functions and signatures."""

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
# Reading order: each package or top-level module imports only those before it.
ORDER = [
    *["version", "errors", "json_text", "regular_files", "os_errors", "files"],
    *["cache", "foreign_models", "bounds"],
    *["config", "settings_tree", "option_sets", "schema", "machine", "devices"],
    *["cuda_graphs", "distributed"],
    *["notices", "progress", "plugins"],
    *["text", "markup", "documents", "data", "attention", "layers", "models", "exchange"],
    *["decoding", "backends", "pipelines"],
    *["evaluation", "training", "tasks", "plots", "tracking", "tuning", "api", "serving", "cli"],
]
# Packages that may depend on specific model kinds.
MAY_USE_KINDS = {"models", "exchange", "tasks"}
MAX_FILE_LINES, MAX_FUNCTION_LINES, MAX_PARAMETERS = 400, 60, 10
MANY_PARAMETERS = {"attend_ragged"}  # the interface of the kernels
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def package(path: Path) -> str:
    """The package or top-level module of a file."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(tree: ast.Module) -> set[str]:
    """The packages that a file imports, at the top or in functions."""
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
    """All functions, with a name for messages."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SOURCE)}: {node.name}", path, node


def test_packages_import_only_packages_before_them() -> None:
    for path, tree in TREES.items():
        if path.name in ("__init__.py", "__main__.py") and path.parent == SOURCE:
            continue
        allowed = {*ORDER[: ORDER.index(package(path)) + 1]}
        if package(path) == "training":
            allowed -= {
                "exchange",
                "decoding",
                "backends",
                "pipelines",
                "evaluation",
            }  # tasks pass in what training needs of them
        assert imported_packages(tree) <= allowed, path


def test_no_circular_imports() -> None:
    names = {
        ".".join(["regard", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): tree
        for path, tree in TREES.items()
    }
    graph = {}
    for name, tree in names.items():
        imports = set()
        for node in tree.body:  # not in functions, which import late
            if isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & names.keys()
                imports |= inner or ({node.module} & names.keys())
            elif isinstance(node, ast.Import):
                imports |= {alias.name for alias in node.names} & names.keys()
        graph[name] = imports - {name, "regard"}
    graph["regard"] = set()  # its names are imported on first use
    [*TopologicalSorter(graph).static_order()]  # raises an error that names the cycle


def test_files_have_one_topic() -> None:
    for path, tree in TREES.items():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES, path
        assert path.stem not in {"utils", "util", "helpers", "common", "misc"}, path
        assert ast.get_docstring(tree), f"{path} has no docstring"


def test_functions_are_short_and_have_few_parameters() -> None:
    for name, path, node in functions():
        assert node.end_lineno is not None
        assert node.end_lineno - node.lineno < MAX_FUNCTION_LINES, name
        if "kernel" in path.stem or node.name in MANY_PARAMETERS:
            continue
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        parameters = [a for a in arguments if a.arg not in ("self", "cls")]
        assert len(parameters) <= MAX_PARAMETERS, name


def test_model_kinds_are_not_compared_in_other_packages() -> None:
    compared = re.compile(r"config\.kind\b\s*(==|!=|in\b|not in\b)")
    for path in FILES:
        if package(path) in MAY_USE_KINDS | {"text"}:  # tokenizers have kinds, too
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "tokenizers.config.kind" not in line:
                assert not compared.search(line), f"{path}:{number}"


def test_model_classes_are_not_inspected_in_other_packages() -> None:
    """Settings classes declare the abilities of a kind; class checks and hasattr are not used."""
    classes = {
        name
        for module in Path(regard.models.__file__).parent.glob("*.py")
        for name, value in vars(importlib.import_module(f"regard.models.{module.stem}")).items()
        if isinstance(value, type) and issubclass(value, Model | ModelConfig)
    }
    assert "Transformer" in classes
    for path, tree in TREES.items():
        if package(path) in MAY_USE_KINDS:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            arguments, location = [*map(ast.unparse, node.args)], f"{path}:{node.lineno}"
            if node.func.id in ("isinstance", "issubclass"):
                names = {*re.findall(r"\w+", arguments[1])}
                assert not names & classes, location
            elif node.func.id == "hasattr" or (node.func.id == "getattr" and len(arguments) == 3):
                assert not re.search(r"model|config|folder|batch", arguments[0]), location


def test_every_module_has_a_test_file() -> None:
    """By its name, or in tests/mirror.toml."""
    tests = Path(__file__).parent
    mirror = tomllib.loads((tests / "mirror.toml").read_text(encoding="utf-8"))
    assert all((tests / name).is_file() for name in mirror)
    listed = {module for modules in mirror.values() for module in modules}
    for path in FILES:
        module = path.relative_to(SOURCE).with_suffix("")
        has_test = (tests / module.parent / f"test_{module.name}.py").is_file()
        assert module.name.startswith("__") or has_test != (module.as_posix() in listed), module
        listed.discard(module.as_posix())
    assert not listed, "these modules do not exist"


def test_nothing_is_unpickled() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert "torch.load" not in text
        assert "import pickle" not in text


def test_all_exported_names_exist() -> None:
    for path in FILES:
        if path.stem.endswith(("kernel", "kernels")) and find_spec("triton") is None:
            continue  # requires Triton
        if path.name == "__main__.py":
            continue
        parts = ["regard", *path.relative_to(SOURCE).with_suffix("").parts]
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for name in getattr(module, "__all__", []):
            assert hasattr(module, name), f"{path}: {name}"

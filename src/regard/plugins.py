"""Plugins: files, modules and installed packages that register model kinds and tasks."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from regard.errors import ConfigError

_FILES: dict[str, str] = {}  # paths of loaded plugins, by name
GROUP = "regard.plugins"  # entry point group of installed plugins


def load_plugin(name: str) -> None:
    """Import a file (`kinds/mine.py`, as module `mine`) or a module (`package.mine`), once."""
    try:
        if name.endswith(".py") or "/" in name:
            _import_file(Path(name))
            _FILES[name] = str(Path(name).expanduser().resolve())
        else:
            _FILES[name] = str(importlib.import_module(name).__file__)
    except ConfigError as error:
        raise ConfigError(f"Plugin {name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"Plugin {name} cannot be imported: {type(error).__name__}: {error}."
            f"{_location(name, error)} Correct it, or leave out --plugin {name}."
        ) from error


def load_installed_plugins() -> None:
    """Import the modules in the entry point group `regard.plugins` of installed packages."""
    if not any(map(_has_plugins, sys.path)):
        return  # importlib.metadata takes longer to import than the rest of `--help`
    from importlib.metadata import entry_points

    for value in dict.fromkeys(point.value for point in entry_points(group=GROUP)):
        load_plugin(value.partition(":")[0].strip())


def _has_plugins(folder: str) -> bool:
    """Whether a package in a folder of `sys.path` has such an entry point."""
    section = f"[{GROUP}]"
    files = Path(folder or ".").glob("*-info/entry_points.txt")
    return any(section in path.read_text(encoding="utf-8", errors="replace") for path in files)


def plugin_names() -> list[str]:
    """The loaded plugins: files and modules."""
    return [*_FILES]


def plugin_options() -> str:
    """The command line options that load the same plugins, each after a space."""
    return "".join(f" --plugin {name}" for name in _FILES)


def error_location(error: BaseException) -> str | None:
    """The plugin and line in which an error was raised; None if it was not in a plugin."""
    locations = [
        f"{name}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        for name, file in _FILES.items()
        if frame.filename == file
    ]
    return locations[-1] if locations else None


def plugin_arguments(arguments: Iterable[str]) -> list[str]:
    """The values of `--plugin` before the subcommand of a command line."""
    names: list[str] = []
    option = ""  # whose value comes next
    for argument in arguments:
        if option:
            names += [argument] if option == "--plugin" else []
            option = ""
        elif argument.startswith("--plugin="):
            names.append(argument.partition("=")[2])
        elif argument in ("--plugin", "--max-line-length"):
            option = argument
        elif not argument.startswith("-"):
            break
    return names


def _import_file(path: Path) -> None:
    path = path.expanduser().resolve()
    if not path.is_file():
        raise ConfigError(f"there is no file {path}. Check the path.")
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if getattr(loaded, "__file__", None) == str(path):
            return
        raise ConfigError(f"a module {path.stem!r} is already imported. Rename the file.")
    spec = spec_from_file_location(path.stem, path, loader=SourceFileLoader(path.stem, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise


def _location(name: str, error: BaseException) -> str:
    """The line of the plugin's file in which an error was raised, if it was raised there."""
    trace, lines = error.__traceback__, []
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == Path(name).name:
            lines.append(trace.tb_lineno)
        trace = trace.tb_next
    return f" The error is in line {lines[-1]}." if lines else ""

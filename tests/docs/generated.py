"""The parts of the documentation that are made from the code: `make docs` writes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard.config import Setting, all_kinds, all_settings
from regard.decoding.config import SearchConfig
from regard.text.config import TokenizerConfig
from regard.training.config import RunConfig
from test_architecture import ORDER

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "regard"
README, SETTINGS = ROOT / "README.md", ROOT / "docs" / "settings.md"
_TREE = re.compile(r"(<!-- tree: .*? -->\n).*?(<!-- /tree -->)", re.DOTALL)


def tree() -> str:
    """Every source file with the first sentence of its docstring, in reading order."""
    lines = ["src/regard/"]
    for room in ORDER:
        if (SOURCE / room).is_dir():
            lines.append(_line(2, f"{room}/", SOURCE / room / "__init__.py"))
            lines += _files(SOURCE / room, 4)
        else:
            lines.append(_line(2, f"{room}.py", SOURCE / f"{room}.py"))
    return "```\n" + "\n".join(lines) + "\n```\n"


def _files(folder: Path, indent: int) -> Iterator[str]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and (path / "__init__.py").exists():
            yield _line(indent, f"{path.name}/", path / "__init__.py")
            yield from _files(path, indent + 2)
        elif path.suffix == ".py" and path.name != "__init__.py":
            yield _line(indent, path.name, path)


def _line(indent: int, name: str, path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert docstring, path
    sentence = docstring.split("\n\n")[0].replace("\n", " ")
    return f"{' ' * indent + name:33} {sentence}"


def readme_with(tree: str) -> str:
    """The README with its tree replaced."""
    return _TREE.sub(lambda match: match[1] + tree + match[2], README.read_text(encoding="utf-8"))


def settings() -> str:
    """The reference page of all settings."""
    text = (
        "# Settings\n\nMade from the code by `make docs`. Every number has bounds; upper bounds "
        "from a million on only catch typing errors, and are not listed.\n"
    )
    for title, note, cls in (
        ("A run", "In a recipe, or with `regard train --set section.name=value`.", RunConfig),
        ("A search", "Options of `regard translate`, keywords of `translate`.", SearchConfig),
        ("A tokenizer", "Options of `regard prepare`.", TokenizerConfig),
    ):
        text += f"\n## {title}\n\n{note}\n\n{_table(all_settings(cls))}"
        for section, name, kind in all_kinds(cls):
            rows = all_settings(kind, f"{section}.")
            text += f"\n### {section}.kind={name}\n\n{_table(rows)}"
    return text


def _table(settings: Iterable[tuple[str, Setting]]) -> str:
    text = "| name | default | kind | meaning |\n|---|---|---|---|\n"
    for path, setting in settings:
        default = "" if path == "out" else str(setting.default)
        kind = "; ".join([setting.kind.replace("|", "\\|"), *setting.limits])
        text += f"| `{path}` | {default} | {kind} | {setting.doc} |\n"
    return text


if __name__ == "__main__":
    README.write_text(readme_with(tree()), encoding="utf-8")
    SETTINGS.write_text(settings(), encoding="utf-8")

"""Generated pages are current; links, commands and recipes of the documentation are valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from docs.generated import DOCS, GENERATED, ROOT
from regard.cli import build_app
from regard.tasks.recipes import build_run_config

README = ROOT / "README.md"
PAGES = [README, *(ROOT / name for name in ("README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md"))]
PAGES += sorted(DOCS.rglob("*.md"))
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))
SPACES = sorted((ROOT / "recipes" / "spaces").glob("*.toml"))


def commands(text: str) -> list[list[str]]:
    """Return the arguments of all `regard ...` lines in code blocks and in comments of recipes."""
    command_lines, in_fence = [], False
    for line in re.sub(r"\\\n#?", " ", text).splitlines():
        in_fence ^= line.startswith("```")
        match = re.match(r"(?:#|\$)?\s*(?:echo .*\| )?(regard [a-z].*)", line)
        if match and (in_fence or line.startswith(("  ", "#"))):
            command_lines.append(shlex.split(re.split(r"\s[<>|]\s?|\s#\s", match[1])[0]))
    return command_lines


@pytest.mark.parametrize("name", GENERATED)
def test_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == GENERATED[name](), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_have_targets(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [*PAGES, *RECIPES, *SPACES], ids=lambda path: path.name)
def test_commands_have_the_options_that_they_show(page: Path) -> None:
    known = typer.main.get_command(build_app())
    for words in commands(page.read_text(encoding="utf-8")):
        command = known
        for word in words[1:]:
            inner = getattr(command, "commands", {})
            if word in inner:
                command = inner[word]
        assert command is not known, words
        options = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
        listed = {word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2}
        assert listed <= options | {"--help"}, words


def test_readme_shows_commands() -> None:
    assert len(commands(README.read_text(encoding="utf-8"))) >= 5


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_recipes_are_runs(recipe: Path) -> None:
    config = build_run_config(recipe, preset=None, changes={}, assignments=[])
    assert config.out == f"runs/{recipe.stem}"
    listed = commands(recipe.read_text(encoding="utf-8"))
    made = [words[words.index("--out") + 1] for words in listed if "--out" in words]
    assert config.data.folder in made, "the first lines say how the data is made"


def test_no_page_names_a_machine_or_a_registry() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "/work/" not in text
        assert "pypi.org" not in text

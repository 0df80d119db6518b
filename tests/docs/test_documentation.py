"""What the documentation says is so."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from docs.generated import README, ROOT, SETTINGS, readme_with, settings, tree
from regard.cli import build_app
from regard.tasks.recipes import run_config

PAGES = [README, ROOT / "README.zh.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECIPES = sorted((ROOT / "recipes").glob("*.toml"))


def commands(text: str) -> list[list[str]]:
    """Every `regard ...` line of the code blocks, continuation lines joined, without the shell."""
    found = []
    for line in re.sub(r"\\\n#?", " ", text).splitlines():
        match = re.match(r"(?:    |#\s*|\$ |  )?\s*(?:echo .*\| )?(regard [a-z].*)", line)
        if match and (line.startswith(("    ", "regard", "#", "  "))):
            words = shlex.split(re.split(r"\s[<>|]\s?|\s#\s", match[1])[0])
            found.append(words)
    return found


def test_the_tree_in_the_readme_is_the_tree() -> None:
    assert README.read_text(encoding="utf-8") == readme_with(tree()), "run `make docs`"


def test_the_settings_page_is_the_settings() -> None:
    assert SETTINGS.read_text(encoding="utf-8") == settings(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [*PAGES, *RECIPES], ids=lambda path: path.name)
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
        shown = {word.split("=")[0] for word in words if word.startswith("--") and len(word) > 2}
        assert shown <= options | {"--help"}, words


def test_the_readme_shows_commands_at_all() -> None:
    assert len(commands(README.read_text(encoding="utf-8"))) >= 8


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_recipes_are_runs(recipe: Path) -> None:
    config = run_config(recipe, preset=None, changes={}, assignments=[])
    assert config.out == f"runs/{recipe.stem}"
    shown = commands(recipe.read_text(encoding="utf-8"))
    made = [words[words.index("--out") + 1] for words in shown if "--out" in words]
    assert config.data.folder in made, "the first lines say how the data is made"


def test_versions_agree() -> None:
    from regard import __version__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_no_page_names_a_machine_or_a_registry() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert "/work/" not in text
        assert "pypi.org" not in text

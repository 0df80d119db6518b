"""The sdist and the wheel: metadata, contents, and the command installed from the wheel alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from regard import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
FILES = ["pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"]
FILES += ["CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"]
Run = Callable[..., str]
# `regard demo` with a smaller corpus and two updates
SMALL_DEMO = """
from functools import partial
from regard.cli import main
from regard.cli.demo import SETTINGS
from regard.data import demo

demo.demo_corpus = partial(demo.demo_corpus, train=300, valid=20, heldout=20)
SETTINGS["training"].update(max_steps=2, checkpoint_every=1)
main()
"""


def run(*words: str | Path, cwd: Path) -> str:
    """Run a program; its standard output and standard error."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel, built from a copy of the sources."""
    copy = tmp_path_factory.mktemp("sources")
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(SOURCE, copy / "src/regard", ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    [path] = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a virtual environment with the wheel.

    The dependencies are those of this environment; a path in a .pth file runs no other .pth files,
    so the editable installation of regard is not found there.
    """
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    run(*pip, "--no-deps", "--no-index", wheel, cwd=folder)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_metadata_are_valid(distributions: Path) -> None:
    checked = run(
        sys.executable, "-m", "twine", "check", "--strict", *distributions.iterdir(), cwd=ROOT
    )
    assert checked.count("PASSED") == 2


def test_wheel_contains_all_sources_and_data_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("regard/")}
        metadata = archive.read(f"regard-{__version__}.dist-info/METADATA").decode()
        licenses = [name for name in archive.namelist() if "/licenses/" in name]
    files = [path for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert names == {f"regard/{path.relative_to(SOURCE).as_posix()}" for path in files}
    assert "regard/py.typed" in names
    assert "License-Expression: Apache-2.0" in metadata
    assert "Typing :: Typed" in metadata
    assert [Path(name).name for name in licenses] == ["LICENSE"]


def test_command_of_the_wheel(environment: Path, tmp_path: Path) -> None:
    assert run(environment / "regard", "--version", cwd=tmp_path) == f"regard {__version__}\n"
    assert "translate" in run(environment / "regard", "--help", cwd=tmp_path)
    code = "import regard; print(regard.__file__)"
    path = Path(run(environment / "python", "-c", code, cwd=tmp_path).strip())
    assert path.is_relative_to(environment.parent)


def test_small_demo_runs_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    run(environment / "python", "-c", SMALL_DEMO, "demo", cwd=tmp_path)
    assert (tmp_path / "runs/demo/attention.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
def test_demo_runs_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    assert "exactly right" in run(environment / "regard", "demo", cwd=tmp_path)


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "version" in project["dynamic"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation
    [date] = re.findall(r'date-released: "(.*)"', citation)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\d.*)$", changelog, re.M)[0] == f"{__version__} - {date}"

"""A temporary folder for one case: its files and commands, and a listing of changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostile.client import Call, Outcome, Server, chown_to_nobody
from hostile.scenarios import Scenario

_LARGE = 1 << 28
Tree = dict[str, str]  # relative path -> file type or digest


@dataclass(frozen=True)
class Reference:
    """The outcome of an unmodified command."""

    outcome: Outcome
    outputs: Tree


class Sandbox:
    """Folders and commands of one case; `folder` is the working directory."""

    def __init__(self, fixtures: Path, server: Server, references: dict[str, Reference]) -> None:
        self.fixtures, self._server, self._references = fixtures, server, references
        self._home = Path(tempfile.mkdtemp(prefix="regard-hostile-"))
        self.folder = self._home / "case"
        self.folder.mkdir()
        self._mounted: list[Path] = []

    def close(self) -> None:
        """Remove everything."""
        for place in self._mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)
        shutil.rmtree(self._home, ignore_errors=True)

    def set_up(self, scenario: Scenario) -> None:
        """Copy the inputs of a scenario."""
        for name in scenario.needs:
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if (self.fixtures / name).is_dir():
                shutil.copytree(self.fixtures / name, place, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(self.fixtures / name, place)

    def call(self, scenario: Scenario, arguments: tuple[str, ...] = (), /, **changes: Any) -> Call:
        """The command of a scenario, or other arguments, in this folder."""
        stdin = f"file:{self.folder / scenario.stdin}" if scenario.stdin else "file:/dev/null"
        return Call(arguments or scenario.arguments, self.folder, **{"stdin": stdin, **changes})

    def run(self, *calls: Call) -> list[Outcome]:
        """Run commands concurrently."""
        chown_to_nobody(self._home)
        return self._server.run_concurrently([*calls])

    def reference(self, scenario: Scenario) -> Reference:
        """The outcome of the unmodified scenario; cached."""
        if scenario.name not in self._references:
            other = Sandbox(self.fixtures, self._server, self._references)
            try:
                other.set_up(scenario)
                (outcome,) = other.run(other.call(scenario))
                assert outcome.status == 0, f"{scenario.name}: {outcome.status}\n{outcome.err}"
                outputs = other.written(scenario)
            finally:
                other.close()
            self._references[scenario.name] = Reference(outcome, outputs)
        return self._references[scenario.name]

    def written(self, scenario: Scenario) -> Tree:
        """The outputs of a scenario that are reproducible."""
        entries = tree(self.folder)
        return {
            name: entries[name]
            for name in entries
            if below(name, scenario.outputs)
            and name.endswith((".safetensors", ".ids", ".txt", ".npy"))
            and ".portions" not in name
        }

    def mount(self, name: str, options: str) -> Path | None:
        """Mount a tmpfs; None if that is not permitted."""
        place = self.folder / name
        place.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            return None
        self._mounted.append(place)
        return place


def below(name: str, node_paths: tuple[str, ...]) -> bool:
    """Whether a path is one of some folders, or inside one."""
    return any(name == place or name.startswith(place + "/") for place in node_paths)


def tree(folder: Path) -> Tree:
    """The entries of a folder, with file types and digests."""
    entries: Tree = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):
            entries[os.fsencode(path.relative_to(folder)).decode("latin-1")] = _what(path)
    return entries


def _what(path: Path) -> str:
    status = path.lstat()
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return f"link to {os.readlink(path)}"
    if stat.S_ISREG(mode) and status.st_size > _LARGE:
        return f"{status.st_size} bytes"
    if stat.S_ISREG(mode):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    if stat.S_ISDIR(mode):
        return "folder"
    return f"special {stat.S_IFMT(mode):o}"


Damage = Callable[[Sandbox], None]

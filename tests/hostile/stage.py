"""A fresh folder for one case: its files, its commands, and what changed."""

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

from hostile.client import Call, Ended, Server, give_away
from hostile.scenes import Scene

_LARGE = 1 << 28
Tree = dict[str, str]  # relative paths and what is there


@dataclass(frozen=True)
class Reference:
    """What an unchanged command comes to."""

    ended: Ended
    outputs: Tree


class Stage:
    """Folders and commands of one case; `folder` is where they run."""

    def __init__(self, kit: Path, server: Server, references: dict[str, Reference]) -> None:
        self.kit, self._server, self._references = kit, server, references
        self._home = Path(tempfile.mkdtemp(prefix="regard-hostile-"))
        self.folder = self._home / "case"
        self.folder.mkdir()
        self._mounted: list[Path] = []

    def close(self) -> None:
        """Remove everything."""
        for place in self._mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)
        shutil.rmtree(self._home, ignore_errors=True)

    def set_up(self, scene: Scene) -> None:
        """Copy what a scene needs."""
        for name in scene.needs:
            place = self.folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if (self.kit / name).is_dir():
                shutil.copytree(self.kit / name, place, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy(self.kit / name, place)

    def call(self, scene: Scene, words: tuple[str, ...] = (), /, **changes: Any) -> Call:
        """The command of a scene, or other words, in this folder."""
        stdin = f"file:{self.folder / scene.stdin}" if scene.stdin else "file:/dev/null"
        return Call(words or scene.words, self.folder, **{"stdin": stdin, **changes})

    def run(self, *calls: Call) -> list[Ended]:
        """Run commands at the same time."""
        give_away(self._home)
        return self._server.together([*calls])

    def reference(self, scene: Scene) -> Reference:
        """What the unchanged scene comes to; found once."""
        if scene.name not in self._references:
            other = Stage(self.kit, self._server, self._references)
            try:
                other.set_up(scene)
                (ended,) = other.run(other.call(scene))
                assert ended.status == 0, f"{scene.name}: {ended.status}\n{ended.err}"
                outputs = other.written(scene)
            finally:
                other.close()
            self._references[scene.name] = Reference(ended, outputs)
        return self._references[scene.name]

    def written(self, scene: Scene) -> Tree:
        """What lies at a scene's outputs: only what is equal for equal work."""
        found = tree(self.folder)
        return {
            name: found[name]
            for name in found
            if below(name, scene.outputs)
            and name.endswith((".safetensors", ".ids", ".txt", ".npy"))
            and ".portions" not in name
        }

    def mount(self, name: str, options: str) -> Path | None:
        """A small disk in memory; None where that is not permitted."""
        place = self.folder / name
        place.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            return None
        self._mounted.append(place)
        return place


def below(name: str, places: tuple[str, ...]) -> bool:
    """Whether a path is one of some places, or in one."""
    return any(name == place or name.startswith(place + "/") for place in places)


def tree(folder: Path) -> Tree:
    """Everything in a folder: kinds of files, and digests of their bytes."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):
            found[os.fsencode(path.relative_to(folder)).decode("latin-1")] = _what(path)
    return found


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


Damage = Callable[[Stage], None]

"""Every file that is read, changed: trees of JSON, bytes, tensors, and what lies at its path."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hostile import damage, tensors, trees
from hostile.cases import Case, one_command
from hostile.scenes import Scene
from hostile.stage import Stage

# What is stored with a fingerprint, so that a change must not go unnoticed.
_SEALED = (".model", ".ids", ".offsets")


_WITHOUT_RUN = {
    *("translate", "score", "align", "evaluate", "generate", "fill", "tag", "classify", "embed"),
    *("merge", "distill", "shortlist", "export", "prepare", "show attention", "show fertilities"),
}


def _files(kit: Path, scene: Scene) -> Iterator[str]:
    """The files that a scene may read, but for plain text."""
    for need in scene.needs:
        if need.startswith("text/") and not need.endswith(".gz"):
            continue
        place = kit / need
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            name = str(path.relative_to(kit))
            if path.is_file() and not (scene.verb in _WITHOUT_RUN and _is_of_run(name, scene)):
                yield name


def _is_of_run(name: str, scene: Scene) -> bool:
    """Whether a file is there only for training that goes on, and for averages."""
    is_named = any("checkpoints" in word for word in scene.words)
    return name.endswith(("run.json", "metrics.jsonl")) or ("checkpoints" in name and not is_named)


def _case(
    group: str,
    scene: Scene,
    name: str,
    what: str,
    change: Callable[[Path, random.Random], None],
    stratum: str = "",
) -> Case:
    def prepare(stage: Stage, draw: random.Random) -> None:
        change(stage.folder / name, draw)

    sealed = group == "bytes" and name.endswith(_SEALED) and name.startswith(("models", "data"))
    # Weights may be of another floating-point type, and of float16 they are other numbers.
    strict = (sealed or (group == "weights" and what != "float16")) and scene.is_steady
    play = one_command(scene, prepare=prepare, is_strict=strict)
    return Case(f"{group}/{scene.name}/{name}/{what}", stratum or f"{scene.name}/{name}", play)


def json_cases(kit: Path, scenes: list[Scene]) -> Iterator[Case]:
    """Each place of each JSON file, with each change."""
    for scene in scenes:
        for name in _files(kit, scene):
            if not name.endswith((".json", ".jsonl")):
                continue
            text = (kit / name).read_text(encoding="utf-8")
            lines = text.splitlines(keepends=True) if name.endswith("l") else [text]
            tree = json.loads(lines[0])
            for place in trees.places(tree):
                for what in trees.CHANGES:
                    change = partial(_change_tree, place=place, what=what)
                    yield _case("json", scene, name, f"{trees.shown(place)}/{what}", change)
            for what in trees.WHOLE:
                change = partial(_change_text, what=what)
                yield _case("json", scene, name, what, change)


def _change_tree(path: Path, draw: random.Random, *, place: trees.Path, what: str) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        number = 0 if len(lines) == 1 else draw.choice([0, 0, len(lines) - 1])
        number = number if _has(json.loads(lines[number]), place) else 0
        lines[number] = trees.changed(json.loads(lines[number]), place, what, draw)
        path.write_text("\n".join(lines) + "\n")
        return
    path.write_text(trees.changed(json.loads(text), place, what, draw))


def _has(tree: object, place: trees.Path) -> bool:
    return place in set(trees.places(tree))


def _change_text(path: Path, draw: random.Random, *, what: str) -> None:
    path.write_bytes(trees.WHOLE[what](path.read_bytes()))


def byte_cases(kit: Path, scenes: list[Scene]) -> Iterator[Case]:
    """Each file, with each change of its bytes or of what it is."""
    for scene in scenes:
        for name in _files(kit, scene):
            if name.endswith("/lock"):
                continue
            for what, change in damage.CHANGES.items():
                yield _case("bytes", scene, name, what, change, f"{_sort(name)}/{what}")
            for other in _namesakes(kit, name):
                replace = partial(_replace, other=kit / other)
                what = f"that of {other.replace('/', '|')}"
                yield _case("bytes", scene, name, what, replace, f"{_sort(name)}/other")


def _sort(name: str) -> str:
    """What sort of file it is: by its ending, where many have the same."""
    path = Path(name)
    return path.suffix if path.suffix in (".ids", ".offsets", ".txt") else path.name


def _namesakes(kit: Path, name: str) -> list[str]:
    """Files of the same name in other folders of the same sort."""
    mine = Path(name)
    found = (path.relative_to(kit) for path in sorted(kit.glob(f"{mine.parts[0]}/*/{mine.name}")))
    return [str(path) for path in found if path != mine][:6]


def _replace(path: Path, draw: random.Random, *, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def weight_cases(kit: Path, scenes: list[Scene]) -> Iterator[Case]:
    """Each file of tensors: values, types, shapes, names and headers."""
    for scene in scenes:
        for name in _files(kit, scene):
            if not name.endswith(".safetensors"):
                continue
            for what in tensors.CHANGES:
                change = partial(_change_tensors, what=what)
                yield _case("weights", scene, name, what, change, what)
            for place in tensors.header_places(kit / name):
                for what in trees.CHANGES:
                    header = partial(tensors.change_header, place=place, what=what)
                    shown = f"{trees.shown(place)}/{what}"
                    yield _case("weights", scene, name, shown, header, f"header/{what}")


def _change_tensors(path: Path, draw: random.Random, *, what: str) -> None:
    tensors.change(path, what, draw)


def lock_cases(kit: Path, scenes: list[Scene]) -> Iterator[Case]:
    """Files that are not there by themselves: locks, temporaries and strangers."""
    names = ("lock", "unknown.json", ".DS_Store", "checkpoints/latest", "checkpoints/x.partial")
    for scene in scenes:
        folders = [need for need in scene.needs if (kit / need).is_dir()]
        for folder in folders:
            for name in names:
                for what in ("folder", "fifo", "dangling link", "link to itself", "random"):
                    change = partial(_add, what=what)
                    yield _case("bytes", scene, f"{folder}/{name}", f"added {what}", change, name)


def _add(path: Path, draw: random.Random, *, what: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"stranger")
    damage.CHANGES[what](path, draw)

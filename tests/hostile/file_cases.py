"""Modified input files: JSON trees, bytes, tensors, and other things at their paths."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from hostile import damage, tensors, trees
from hostile.cases import Case, command_runner
from hostile.sandbox import Sandbox
from hostile.scenarios import Scenario

# Files with a stored fingerprint: a change must be detected.
_FINGERPRINTED = (".model", ".ids", ".offsets")


_WITHOUT_RUN = {
    *("translate", "score", "align", "evaluate", "generate", "fill", "tag", "classify", "embed"),
    *("merge", "distill", "shortlist", "export", "prepare", "show attention", "show fertilities"),
}


def _files(fixtures: Path, scenario: Scenario) -> Iterator[str]:
    """The input files of a scenario, except plain text."""
    for need in scenario.needs:
        if need.startswith("text/") and not need.endswith(".gz"):
            continue
        place = fixtures / need
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            name = str(path.relative_to(fixtures))
            if path.is_file() and not (
                scenario.command in _WITHOUT_RUN and _is_of_run(name, scenario)
            ):
                yield name


def _is_of_run(name: str, scenario: Scenario) -> bool:
    """Whether a file is only read by `train` and `average`."""
    is_named = any("checkpoints" in word for word in scenario.arguments)
    return name.endswith(("run.json", "metrics.jsonl")) or ("checkpoints" in name and not is_named)


def _case(
    group: str,
    scenario: Scenario,
    name: str,
    what: str,
    change: Callable[[Path, random.Random], None],
    stratum: str = "",
) -> Case:
    def prepare(sandbox: Sandbox, draw: random.Random) -> None:
        change(sandbox.folder / name, draw)

    sealed = (
        group == "bytes" and name.endswith(_FINGERPRINTED) and name.startswith(("models", "data"))
    )
    # float16 weights are accepted, and change the result.
    strict = (sealed or (group == "weights" and what != "float16")) and scenario.is_deterministic
    run = command_runner(scenario, prepare=prepare, is_strict=strict)
    return Case(f"{group}/{scenario.name}/{name}/{what}", stratum or f"{scenario.name}/{name}", run)


def json_cases(fixtures: Path, scenarios: list[Scenario]) -> Iterator[Case]:
    """Each node of each JSON file, with each change."""
    for scenario in scenarios:
        for name in _files(fixtures, scenario):
            if not name.endswith((".json", ".jsonl")):
                continue
            text = (fixtures / name).read_text(encoding="utf-8")
            lines = text.splitlines(keepends=True) if name.endswith("l") else [text]
            tree = json.loads(lines[0])
            for place in trees.node_paths(tree):
                for what in trees.CHANGES:
                    change = partial(_change_tree, place=place, what=what)
                    yield _case("json", scenario, name, f"{trees.dotted(place)}/{what}", change)
            for what in trees.WHOLE:
                change = partial(_change_text, what=what)
                yield _case("json", scenario, name, what, change)


def _change_tree(path: Path, draw: random.Random, *, place: trees.Path, what: str) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        number = 0 if len(lines) == 1 else draw.choice([0, 0, len(lines) - 1])
        number = number if _has(json.loads(lines[number]), place) else 0
        lines[number] = trees.apply_change(json.loads(lines[number]), place, what, draw)
        path.write_text("\n".join(lines) + "\n")
        return
    path.write_text(trees.apply_change(json.loads(text), place, what, draw))


def _has(tree: object, place: trees.Path) -> bool:
    return place in set(trees.node_paths(tree))


def _change_text(path: Path, draw: random.Random, *, what: str) -> None:
    path.write_bytes(trees.WHOLE[what](path.read_bytes()))


def byte_cases(fixtures: Path, scenarios: list[Scenario]) -> Iterator[Case]:
    """Each file, with each change of its bytes or its type."""
    for scenario in scenarios:
        for name in _files(fixtures, scenario):
            if name.endswith("/lock"):
                continue
            for what, change in damage.CHANGES.items():
                yield _case("bytes", scenario, name, what, change, f"{_sort(name)}/{what}")
            for other in _namesakes(fixtures, name):
                replace = partial(_replace, other=fixtures / other)
                what = f"that of {other.replace('/', '|')}"
                yield _case("bytes", scenario, name, what, replace, f"{_sort(name)}/other")


def _sort(name: str) -> str:
    """The kind of a file: its suffix for common ones, else its name."""
    path = Path(name)
    return path.suffix if path.suffix in (".ids", ".offsets", ".txt") else path.name


def _namesakes(fixtures: Path, name: str) -> list[str]:
    """Files of the same name in other folders of the same kind."""
    mine = Path(name)
    paths = (
        path.relative_to(fixtures)
        for path in sorted(fixtures.glob(f"{mine.parts[0]}/*/{mine.name}"))
    )
    return [str(path) for path in paths if path != mine][:6]


def _replace(path: Path, draw: random.Random, *, other: Path) -> None:
    path.write_bytes(other.read_bytes())


def weight_cases(fixtures: Path, scenarios: list[Scenario]) -> Iterator[Case]:
    """Each file of tensors: values, types, shapes, names and headers."""
    for scenario in scenarios:
        for name in _files(fixtures, scenario):
            if not name.endswith(".safetensors"):
                continue
            for what in tensors.CHANGES:
                change = partial(_change_tensors, what=what)
                yield _case("weights", scenario, name, what, change, what)
            for place in tensors.header_places(fixtures / name):
                for what in trees.CHANGES:
                    header = partial(tensors.change_header, place=place, what=what)
                    dotted = f"{trees.dotted(place)}/{what}"
                    yield _case("weights", scenario, name, dotted, header, f"header/{what}")


def _change_tensors(path: Path, draw: random.Random, *, what: str) -> None:
    tensors.change(path, what, draw)


def lock_cases(fixtures: Path, scenarios: list[Scenario]) -> Iterator[Case]:
    """Additional files: locks, temporary files and unknown files."""
    names = ("lock", "unknown.json", ".DS_Store", "checkpoints/latest", "checkpoints/x.partial")
    for scenario in scenarios:
        folders = [need for need in scenario.needs if (fixtures / need).is_dir()]
        for folder in folders:
            for name in names:
                for what in ("folder", "fifo", "dangling link", "link to itself", "random"):
                    change = partial(_add, what=what)
                    yield _case(
                        "bytes", scenario, f"{folder}/{name}", f"added {what}", change, name
                    )


def _add(path: Path, draw: random.Random, *, what: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_bytes(b"stranger")
    damage.CHANGES[what](path, draw)

"""The interface of experiment trackers, and the description of a run that they receive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from regard.config import Tree

Status = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker stores about a run besides its metrics."""

    project: str
    name: str
    folder: Path
    settings: Tree


class Tracker(Protocol):
    """One run of a tracking service; its methods may raise any exception."""

    run_id: str  # with which the run is continued after an interruption
    location: str  # where to look at it, for a notice

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Store metrics of a step; steps never decrease."""
        ...

    def finish(self, status: Status, best: Mapping[str, float]) -> None:
        """End the run with the metrics of its best model, which may be empty."""
        ...


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested settings, by dotted path."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value

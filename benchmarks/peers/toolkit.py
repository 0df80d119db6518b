"""Rivals that are toolkits: each in an environment of its own, run by its own command.

A toolkit reads files, so the sentences of a lesson are written as words, one for each id: every
toolkit then has our subwords, and cuts nothing itself. It trains for the updates of a round and
logs each; what its log says of the last ones is the round.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from contest import Round, UnableError
from lesson import FIRST_WORD, Lesson
from peers.process import environment, run

PEERS = Path("build/peers")
FAILED = "failed"  # in an environment that could not be made: the reason
Command = Sequence[str]
Row = tuple[float, float]  # the target tokens of an update, and its seconds


@dataclass(frozen=True)
class Job:
    """What a toolkit is asked to do."""

    lesson: Lesson
    text: Path  # a folder with train, valid (each .source and .target) and words
    work: Path  # a folder of its own
    bin: Path  # of its environment
    threads: int

    @property
    def python(self) -> str:
        """Of its environment."""
        return str(self.bin / "python")

    @property
    def steps(self) -> int:
        """Updates in all."""
        return self.lesson.warmup + self.lesson.updates


def nothing(job: Job) -> list[Command]:
    """No command."""
    return []


@dataclass(frozen=True)
class Toolkit:
    """How a toolkit is installed, run and understood."""

    name: str
    package: str  # on PyPI
    install: Sequence[str]  # what pip is told, one call after the other
    train: Callable[[Job], Command]
    rows: Callable[[str], list[Row]]  # of a log, one for each update
    prepare: Callable[[Job], list[Command]] = nothing
    needs_torch: bool = True

    @property
    def home(self) -> Path:
        """Its environment."""
        return PEERS / self.package.lower()

    def version(self) -> str | None:
        """As installed; None if it is not."""
        ask = f"from importlib.metadata import version; print(version({self.package!r}))"
        python = self.home / "bin" / "python"
        if not python.is_file():
            return None
        told = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        return told.stdout.strip() or None

    def absence(self) -> str | None:
        """Why it cannot take part; None if it can."""
        failed = self.home / FAILED
        if failed.is_file():
            return failed.read_text(encoding="utf-8").strip()
        return None if self.version() else "not installed; `make bench-peers` does that"


class ToolkitRun:
    """A toolkit as a contestant: each round is a run of its command."""

    rival = True

    def __init__(self, toolkit: Toolkit, lesson: Lesson, folder: Path, threads: int) -> None:
        self.name = toolkit.name
        self._toolkit = toolkit
        work = (folder / toolkit.package.lower()).resolve()
        home = toolkit.home.resolve()
        self._job = Job(lesson, (folder / "text").resolve(), work, home / "bin", threads)
        self._log = work / "log"
        self._is_prepared = False

    def round(self) -> Round:
        """Train for the updates of warm-up and round; the last ones count."""
        absence = self._toolkit.absence()
        if absence is not None:
            raise UnableError(absence)
        self._prepare()
        memory = self._run(self._toolkit.train(self._job))
        updates = self._job.lesson.updates
        rows = self._toolkit.rows(self._log.read_text(encoding="utf-8", errors="replace"))
        if len(rows) < updates:
            raise UnableError(f"its log tells of {len(rows)} updates, not {updates}")
        tokens, seconds = map(sum, zip(*rows[-updates:], strict=True))
        return Round(round(tokens), seconds, memory)

    def _prepare(self) -> None:
        if self._is_prepared:
            return
        shutil.rmtree(self._job.work, ignore_errors=True)  # some refuse to write over anything
        self._job.work.mkdir(parents=True)
        write_text(self._job.text, self._job.lesson)
        for command in self._toolkit.prepare(self._job):
            self._run(command)
        self._is_prepared = True

    def _run(self, command: Command) -> float:
        """Run a command; its peak of memory, GiB."""
        chosen = environment(self._job.threads)
        del chosen["PYTHONPATH"]  # nothing of ours is any business of theirs
        return run(command, self._log, chosen, cwd=self._job.work)


def write_text(folder: Path, lesson: Lesson) -> None:
    """The sentences as words w4, w5, ..., and the list of all words."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = lesson.pairs()
    for side, name in enumerate(("source", "target")):
        lines = [" ".join(f"w{token}" for token in pair[side]) + "\n" for pair in pairs]
        (folder / f"train.{name}").write_text("".join(lines))
        (folder / f"valid.{name}").write_text("".join(lines[:50]))  # some insist on having it
    (folder / "words").write_text("".join(f"{word}\n" for word in words(lesson)))


def words(lesson: Lesson) -> list[str]:
    """The vocabulary; toolkits add their own marks."""
    return [f"w{token}" for token in range(FIRST_WORD, lesson.vocabulary)]

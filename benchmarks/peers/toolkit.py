"""Peers that are toolkits: each has its own environment and is run by its own command.

A toolkit reads files, so the sentences of a task are written as words, one for each id: all
toolkits have the same subwords, and none tokenizes by itself. A toolkit trains for the updates of
a round and logs each update; the last ones in the log are the round.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from comparison import Round, UnavailableError
from peers.process import environment, run_command
from training_task import FIRST_TOKEN, TrainingTask

PEERS = Path("build/peers")
FAILURE_FILE = "failed"  # in an environment that could not be installed: the reason
Command = Sequence[str]
Row = tuple[float, float]  # the target tokens of an update, and its seconds


@dataclass(frozen=True)
class Job:
    """A training job of a toolkit."""

    task: TrainingTask
    text: Path  # folder with train and valid (each .source and .target), and words
    work: Path  # folder for the toolkit's files
    bin: Path  # bin folder of its environment
    threads: int

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return str(self.bin / "python")

    @property
    def steps(self) -> int:
        """The number of updates, including warm-up."""
        return self.task.warmup + self.task.updates


def no_commands(job: Job) -> list[Command]:
    """No commands: the toolkit reads text."""
    return []


@dataclass(frozen=True)
class Toolkit:
    """How a toolkit is installed and run, and how its log is parsed."""

    name: str
    package: str  # on PyPI
    install: Sequence[str]  # arguments of successive pip calls
    train: Callable[[Job], Command]
    rows: Callable[[str], list[Row]]  # parses a log: one row for each update
    prepare: Callable[[Job], list[Command]] = no_commands
    needs_torch: bool = True

    @property
    def home(self) -> Path:
        """The folder of its environment."""
        return PEERS / self.package.lower()

    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        code = f"from importlib.metadata import version; print(version({self.package!r}))"
        python = self.home / "bin" / "python"
        if not python.is_file():
            return None
        process = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
        return process.stdout.strip() or None

    def problem(self) -> str | None:
        """The reason why it cannot be run; None if it can."""
        failure = self.home / FAILURE_FILE
        if failure.is_file():
            return failure.read_text(encoding="utf-8").strip()
        return None if self.version() else "not installed; run `make bench-peers`"


class ToolkitRunner:
    """Runs a toolkit; each round is a run of its training command."""

    is_peer = True

    def __init__(self, toolkit: Toolkit, task: TrainingTask, folder: Path, threads: int) -> None:
        self.name = toolkit.name
        self._toolkit = toolkit
        work = (folder / toolkit.package.lower()).resolve()
        home = toolkit.home.resolve()
        self._job = Job(task, (folder / "text").resolve(), work, home / "bin", threads)
        self._log = work / "log"
        self._is_prepared = False

    def round(self) -> Round:
        """Train for the updates of warm-up and round; the updates of the round are timed."""
        problem = self._toolkit.problem()
        if problem is not None:
            raise UnavailableError(problem)
        self._prepare()
        memory = self._run(self._toolkit.train(self._job))
        updates = self._job.task.updates
        rows = self._toolkit.rows(self._log.read_text(encoding="utf-8", errors="replace"))
        if len(rows) < updates:
            raise UnavailableError(f"its log has {len(rows)} updates; {updates} were expected")
        tokens, seconds = map(sum, zip(*rows[-updates:], strict=True))
        return Round(round(tokens), seconds, memory)

    def _prepare(self) -> None:
        if self._is_prepared:
            return
        shutil.rmtree(self._job.work, ignore_errors=True)  # some toolkits do not overwrite files
        self._job.work.mkdir(parents=True)
        write_text(self._job.text, self._job.task)
        for command in self._toolkit.prepare(self._job):
            self._run(command)
        self._is_prepared = True

    def _run(self, command: Command) -> float:
        """Run a command; returns peak memory, GiB."""
        variables = environment(self._job.threads)
        del variables["PYTHONPATH"]  # the toolkit's environment is separate from regard's
        return run_command(command, self._log, variables, cwd=self._job.work)


def write_text(folder: Path, task: TrainingTask) -> None:
    """Write the sentences as words w4, w5, ..., and the list of all words."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = task.pairs()
    for side, name in enumerate(("source", "target")):
        lines = [" ".join(f"w{token}" for token in pair[side]) + "\n" for pair in pairs]
        (folder / f"train.{name}").write_text("".join(lines))
        (folder / f"valid.{name}").write_text("".join(lines[:50]))  # required by some toolkits
    (folder / "words").write_text("".join(f"{word}\n" for word in vocabulary_words(task)))


def vocabulary_words(task: TrainingTask) -> list[str]:
    """The vocabulary without special tokens, which toolkits add."""
    return [f"w{token}" for token in range(FIRST_TOKEN, task.vocabulary)]

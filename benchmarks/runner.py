"""Runs the `regard` command in parallel jobs, and stores the result of each job at once."""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from safetensors import safe_open

import machine

Job = TypeVar("Job")
IdentifiedJob = TypeVar("IdentifiedJob", bound="Identified")
Tree = dict[str, Any]


class Identified(Protocol):
    """A job whose result contains its identity."""

    @property
    def identity(self) -> Tree:
        """Fields that distinguish its result."""
        ...


class Named(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str:
        """The name in folders and results."""
        ...


NamedRow = TypeVar("NamedRow", bound=Named)


def run_regard(*arguments: str, threads: int = 1) -> str:
    """Run a command and return its output; raises CalledProcessError if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TERM": "dumb"}
    command = [sys.executable, "-m", "regard", *arguments]
    process = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return process.stdout


def setting_options(*assignments: str) -> list[str]:
    """Assignments as options of `regard train`; the last one wins if a setting repeats."""
    last = {assignment.partition("=")[0]: assignment for assignment in assignments}
    return [word for assignment in last.values() for word in ("--set", assignment)]


def evaluate_bleu(run: Path, source: str, reference: str, *options: str) -> float:
    """A model's BLEU on a test set, from `regard evaluate`."""
    files = ["--source", source, "--reference", reference]
    output = run_regard(
        *["evaluate", str(run), *files, "--format", "json", "--batch-size", "256", *options]
    )
    score: float = json.loads(output)["results"][0]["metrics"][0]["value"]
    return score


def training_seconds(run: Path) -> float:
    """The training time of a run, including time before it was resumed."""
    last = (run / "metrics.jsonl").read_text().splitlines()[-1]
    seconds: float = json.loads(last)["seconds"]
    return seconds


def count_parameters(run: Path) -> int:
    """The number of parameters of a run's model."""
    with safe_open(run / "model.safetensors", framework="np") as file:
        names = list(file.keys())
        return sum(math.prod(file.get_slice(name).get_shape()) for name in names)


def read_results(path: Path) -> list[Tree]:
    """The stored results; empty if there are none."""
    results: list[Tree] = json.loads(path.read_text())["results"] if path.is_file() else []
    return results


def unfinished_jobs(jobs: Sequence[IdentifiedJob], path: Path) -> list[IdentifiedJob]:
    """The jobs without a stored result."""
    results = read_results(path)
    return [
        job for job in jobs if not any(job.identity.items() <= result.items() for result in results)
    ]


def add_options(parser: argparse.ArgumentParser, name: str, *, runs: str, seeds: int) -> None:
    """Add the options that all programs with parallel jobs share."""
    results = Path(f"benchmarks/results/{name}.json")
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(1, seeds + 1)])
    parser.add_argument("--parallel", type=int, default=1, help="number of parallel runs")
    parser.add_argument("--minutes", type=float, default=1e6, help="time limit for starting runs")


def run_jobs(
    jobs: Sequence[Job],
    measure: Callable[[Job], Tree],
    path: Path,
    *,
    parallel: int,
    minutes: float,
) -> None:
    """Run jobs in parallel, store each result at once, and print failures."""
    deadline, lock = time.monotonic() + 60 * minutes, threading.Lock()

    def work(job: Job) -> None:
        if time.monotonic() > deadline:
            return
        try:
            result = measure(job)
        except subprocess.CalledProcessError as error:
            print(f"{job} failed: {error.stderr[-500:]}", flush=True)
            return
        with lock:
            write_results(path, [*read_results(path), result])
            print(json.dumps(result), flush=True)

    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(work, jobs))


def run_all_seeds(
    rows: Sequence[NamedRow], measure: Callable[[NamedRow, int, Any], Tree], options: Any
) -> None:
    """Run each row of a table with each seed, except those that have results."""
    finished = {(result["row"], result["seed"]) for result in read_results(options.results)}
    jobs = [(row, seed) for seed in options.seeds for row in rows]
    run_jobs(
        [(row, seed) for row, seed in jobs if (row.name, seed) not in finished],
        lambda job: measure(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )


def write_results(path: Path, results: Sequence[Tree]) -> None:
    """Write all results, with a description of the machine."""
    hardware = machine.describe("cuda" if machine.has_gpu() else "cpu")
    about = {"date": time.strftime("%Y-%m-%d"), **hardware, "torch": torch.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")

"""Runs of the `regard` command side by side, with results that are kept one by one."""

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
Tree = dict[str, Any]


class Named(Protocol):
    """A row of a table."""

    @property
    def name(self) -> str:
        """For folders and results."""
        ...


NamedRow = TypeVar("NamedRow", bound=Named)


def regard(*words: str, threads: int = 1) -> str:
    """What a command prints; one that fails raises CalledProcessError."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TERM": "dumb"}
    command = [sys.executable, "-m", "regard", *words]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return done.stdout


def settings(*assignments: str) -> list[str]:
    """As options of `regard train`; of several for one setting, the last."""
    last = {assignment.partition("=")[0]: assignment for assignment in assignments}
    return [word for assignment in last.values() for word in ("--set", assignment)]


def bleu(run: Path, source: str, reference: str, *options: str) -> float:
    """A model's BLEU on a test set, as `regard evaluate` counts it."""
    files = ["--source", source, "--reference", reference]
    told = regard(
        *["evaluate", str(run), *files, "--format", "json", "--batch-size", "256", *options]
    )
    figure: float = json.loads(told)["results"][0]["metrics"][0]["value"]
    return figure


def seconds_of(run: Path) -> float:
    """How long a run trained, over all its stretches."""
    last = (run / "metrics.jsonl").read_text().splitlines()[-1]
    seconds: float = json.loads(last)["seconds"]
    return seconds


def parameters_of(run: Path) -> int:
    """How many numbers a run's model is made of."""
    with safe_open(run / "model.safetensors", framework="np") as file:
        names = list(file.keys())
        return sum(math.prod(file.get_slice(name).get_shape()) for name in names)


def results_in(path: Path) -> list[Tree]:
    """What was kept before."""
    results: list[Tree] = json.loads(path.read_text())["results"] if path.is_file() else []
    return results


def add_options(parser: argparse.ArgumentParser, name: str, *, runs: str, seeds: int) -> None:
    """What every program of this kind can be told."""
    results = Path(f"benchmarks/results/{name}.json")
    parser.add_argument("--runs", type=Path, default=Path(runs))
    parser.add_argument("--results", type=Path, default=results)
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(1, seeds + 1)])
    parser.add_argument("--parallel", type=int, default=1, help="runs side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="start no run after these")


def all_of(
    jobs: Sequence[Job],
    measure: Callable[[Job], Tree],
    path: Path,
    *,
    parallel: int,
    minutes: float,
) -> None:
    """Measure jobs side by side, keep each result at once, and say what failed."""
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
            _keep(path, [*results_in(path), result])
            print(json.dumps(result), flush=True)

    with ThreadPoolExecutor(parallel) as pool:
        list(pool.map(work, jobs))


def all_seeds(
    rows: Sequence[NamedRow], measure: Callable[[NamedRow, int, Any], Tree], options: Any
) -> None:
    """Measure each row of a table with each seed, but for what the results have already."""
    finished = {(result["row"], result["seed"]) for result in results_in(options.results)}
    jobs = [(row, seed) for seed in options.seeds for row in rows]
    all_of(
        [(row, seed) for row, seed in jobs if (row.name, seed) not in finished],
        lambda job: measure(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )


def _keep(path: Path, results: Sequence[Tree]) -> None:
    found = machine.described("cuda" if machine.has_gpu() else "cpu")
    about = {"date": time.strftime("%Y-%m-%d"), **found, "torch": torch.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**about, "results": results}, indent=1) + "\n")

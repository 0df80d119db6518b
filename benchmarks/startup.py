"""Start-up time of the command: help, and the translation of one sentence.

    python benchmarks/startup.py --model runs/multi30k-en-de
    python benchmarks/startup.py --model runs/multi30k-en-de --device cuda

Each command is a process of its own, timed as a whole, in interleaved rounds. The first translation
converts the model to CTranslate2 and caches the result; it is in a row of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import machine
from pages import fill

PAGE = Path("docs/results/benchmarks.md")
SENTENCE = "Two children throw a ball in the park.\n"


def main() -> None:
    """Print or write the table."""
    options = _options()
    translate = ["translate", str(options.model), "--device", options.device]
    commands = {"`regard --help`": ["--help"]}
    if options.device == "cpu":
        commands |= {
            "`regard translate`, CTranslate2": [*translate, "--backend", "ctranslate2"],
            "`regard translate`, CTranslate2 int8": [*translate, "--precision", "int8"],
        }
    commands["`regard translate`, PyTorch"] = [*translate, "--backend", "torch"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        firsts = {name: seconds(command, environment) for name, command in commands.items()}
        rounds = [
            {name: seconds(command, environment) for name, command in commands.items()}
            for _ in range(options.rounds)
        ]
    hardware = machine.describe(options.device)
    lines = [
        f"{hardware['device']}, {hardware['cores']} cores; {options.rounds} rounds.",
        "",
        "| command | seconds | range | first time |",
        "|---|---|---|---|",
    ]
    for name in commands:
        times = sorted(round_[name] for round_ in rounds)
        median = statistics.median(times)
        lines.append(
            f"| {name} | {median:.2f} | {times[0]:.2f}, {times[-1]:.2f} | {firsts[name]:.2f} |"
        )
    print("\n".join(lines))
    if options.write:
        fill(PAGE, f"startup-{options.device}", "\n".join(lines))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--write", action="store_true", help="write the table into docs/")
    return parser.parse_args()


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """The time of a command that gets one sentence."""
    begin = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "regard", *command],
        input=SENTENCE,
        text=True,
        env=environment,
        check=True,
        capture_output=True,
    )
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()

"""BLEU of the recipes: each with several seeds, on its test set.

    python benchmarks/recipes.py --text ~/corpora --parallel 4

`--text` is a folder with the test sets below; the data is prepared as in the recipes. Each result
is stored at once in benchmarks/results/recipes.json, so the same command resumes after an
interruption; at the end, mean and standard deviation of each recipe are printed.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import (
    Tree,
    add_options,
    evaluate_bleu,
    read_results,
    run_jobs,
    run_regard,
    setting_options,
    training_seconds,
)


@dataclass(frozen=True)
class Measure:
    """A recipe, its data if not the default, and its test set."""

    name: str
    recipe: str
    source: str
    reference: str
    options: tuple[str, ...] = ()
    data: str | None = None


_FLICKR = ("multi30k/test_2016_flickr.en", "multi30k/test_2016_flickr.de")
MEASURES = [
    Measure("multi30k-en-de", "multi30k-en-de", *_FLICKR, ("--lowercase",)),
    Measure("multi30k-en-de, cased", "multi30k-en-de", *_FLICKR, (), "data/multi30k-en-de-cased"),
    Measure("3am-zh-en", "3am-zh-en", "3am-zh-en/val.zh", "3am-zh-en/val.en"),
    Measure("tatoeba-de-en", "tatoeba-de-en", "tatoeba-de-en/valid.de", "tatoeba-de-en/valid.en"),
]


def main() -> None:
    """Train and evaluate the missing recipes, then print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="folder of the test sets")
    parser.add_argument("--only", nargs="+", help="only these")
    add_options(parser, "recipes", runs="runs", seeds=3)
    options = parser.parse_args()
    finished = {(result["name"], result["seed"]) for result in read_results(options.results)}
    jobs = [
        (measure, seed)
        for seed in options.seeds
        for measure in MEASURES
        if (measure.name, seed) not in finished and measure.name in (options.only or [measure.name])
    ]
    run_jobs(
        jobs,
        lambda job: run_job(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(summary(read_results(options.results)))


def run_job(measure: Measure, seed: int, options: Any) -> Tree:
    """Train a recipe with a seed, and evaluate on its test set."""
    out = options.runs / f"{measure.name.replace(', ', '-')}-{seed}"
    data = ["--data", measure.data] if measure.data else []
    arguments = setting_options(f"training.seed={seed}", "training.tensorboard=false")
    run_regard("train", f"recipes/{measure.recipe}.toml", "--out", str(out), *data, *arguments)
    files = str(options.text / measure.source), str(options.text / measure.reference)
    score = evaluate_bleu(out, *files, *measure.options)
    return {"name": measure.name, "seed": seed, "bleu": score, "seconds": training_seconds(out)}


def summary(results: list[Tree]) -> str:
    """A line for each recipe: mean, standard deviation, each seed, and training time."""
    lines = []
    for measure in MEASURES:
        measure_results = [result for result in results if result["name"] == measure.name]
        if measure_results:
            figures = [result["bleu"] for result in measure_results]
            spread = statistics.stdev(figures) if len(figures) > 1 else 0.0
            times = [result["seconds"] for result in measure_results if result["seconds"]]
            seconds = f", {statistics.mean(times):.0f} s per run" if times else ""
            each = ", ".join(f"{score:.2f}" for score in figures)
            mean = statistics.mean(figures)
            lines.append(f"{measure.name}: {mean:.2f} ± {spread:.2f} ({each}){seconds}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""What the recipes are worth: each with several seeds, on its test set.

    python benchmarks/recipes.py --text ~/corpora --parallel 4

`--text` is a folder with the test sets below, and the prepared data is where the recipes look for
it. Results are kept one by one in benchmarks/results/recipes.json, so the same command goes on
where it stopped; at the end, mean and spread of each recipe are printed.
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side import Tree, add_options, all_of, bleu, regard, results_in, seconds_of, settings


@dataclass(frozen=True)
class Measure:
    """A recipe, the data it is trained on if not its own, and how it is measured."""

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
    """Train and measure what is missing, then summarise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="the folder of the test sets")
    parser.add_argument("--only", nargs="+", help="names of some measures")
    add_options(parser, "recipes", runs="runs", seeds=3)
    options = parser.parse_args()
    done = {(result["name"], result["seed"]) for result in results_in(options.results)}
    jobs = [
        (measure, seed)
        for seed in options.seeds
        for measure in MEASURES
        if (measure.name, seed) not in done and measure.name in (options.only or [measure.name])
    ]
    all_of(
        jobs,
        lambda job: measured(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(summary(results_in(options.results)))


def measured(measure: Measure, seed: int, options: Any) -> Tree:
    """Train a recipe with a seed, and translate its test set."""
    out = options.runs / f"{measure.name.replace(', ', '-')}-{seed}"
    data = ["--data", measure.data] if measure.data else []
    words = settings(f"training.seed={seed}", "training.tensorboard=false")
    regard("train", f"recipes/{measure.recipe}.toml", "--out", str(out), *data, *words)
    files = str(options.text / measure.source), str(options.text / measure.reference)
    figure = bleu(out, *files, *measure.options)
    return {"name": measure.name, "seed": seed, "bleu": figure, "seconds": seconds_of(out)}


def summary(results: list[Tree]) -> str:
    """A line for each measure: mean, spread, each seed, and the time of a run."""
    lines = []
    for measure in MEASURES:
        own = [result for result in results if result["name"] == measure.name]
        if own:
            figures = [result["bleu"] for result in own]
            spread = statistics.stdev(figures) if len(figures) > 1 else 0.0
            times = [result["seconds"] for result in own if result["seconds"]]
            seconds = f", {statistics.mean(times):.0f} s a run" if times else ""
            each = ", ".join(f"{figure:.2f}" for figure in figures)
            mean = statistics.mean(figures)
            lines.append(f"{measure.name}: {mean:.2f} ± {spread:.2f} ({each}){seconds}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

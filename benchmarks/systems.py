"""The translators before the Transformer beside it, on Multi30k: the table of docs/systems.md.

    python benchmarks/systems.py --text multi30k --parallel 8       # on a GPU: all but the CPU's
    python benchmarks/systems.py --text multi30k --device cpu --only speed
    python benchmarks/systems.py --write                # the table and the picture, into docs/

`--text` is the folder of test_2016_flickr.en and .de; the prepared data is where the recipes look
for it. Four things are measured of each row, in this order:

    bleu        trained whole, some side by side, then translated with a beam of 5
    training    a few hundred updates alone: how long one takes, and target tokens a second
    speed       alone: sentences a second, one after the other and 100 at a time, beam 5
    bottleneck  BLEU by length, and the gradient that reaches the first word; on any device

Results are kept one by one, and models in `--keep`; so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import machine
from pages import fill
from regard import plots
from regard.devices import device_named
from regard.evaluation.analysis import LengthBucket
from regard.training.metrics_log import read_metrics
from side_by_side import (
    Tree,
    add_options,
    all_of,
    bleu,
    parameters_of,
    regard,
    results_in,
    seconds_of,
    settings,
)

PAGE = Path("docs/systems.md")
TEST = "test_2016_flickr"
MEASURES = ["bleu", "training", "speed", "bottleneck"]
PICTURE = Path("docs/pictures/bottleneck.png")
DRAWN = ["recurrent-none", "recurrent-additive", "transformer"]
BATCH = 100
ONE_BY_ONE = 200  # sentences
UPDATES, WARM_UP = 400, 200  # of those that are timed, the first are not counted
QUIET = ("training.tensorboard=false", "training.validate_bleu=false")
MODEL_FILES = ("config.json", "tokenizer.model", "model.safetensors", "run.json", "metrics.jsonl")


@dataclass(frozen=True)
class Row:
    """A recipe with some settings changed; `name` is that of its folders."""

    name: str
    title: str
    recipe: str
    settings: tuple[str, ...] = ()


def _looking(name: str, title: str, *more: str) -> Row:
    return Row(f"recurrent-{name}", f"LSTM, {title}", "multi30k-recurrent", more)


_HARD, _DRAWN = "model.attention.select=hard", "model.attention.select=sampled"
ROWS = [
    Row("recurrent-none", "LSTM without attention", "multi30k-recurrent-no-attention"),
    _looking("additive", "additive attention"),
    _looking("dot", "dot products", "model.attention.score=dot"),
    _looking("bilinear", "bilinear attention", "model.attention.score=bilinear"),
    _looking("hard", "additive and hard, straight-through", _HARD),
    _looking(
        "reinforce",
        "additive and drawn, REINFORCE",
        *(_DRAWN, "model.attention.estimator=reinforce"),
    ),
    Row("convolutional", "convolutions", "multi30k-convolutional"),
    Row("transformer", "Transformer", "multi30k-en-de"),
]


@dataclass(frozen=True)
class Job:
    """Something to be measured; `number` is a seed, or one of several rounds."""

    measure: str
    row: Row
    number: int
    device: str

    @property
    def identity(self) -> Tree:
        """As it is found again among results."""
        return {**vars(self), "row": self.row.name}


def main() -> None:
    """Measure what is missing, or write the table."""
    options = _options()
    if options.write:
        results = results_in(options.results)
        fill(PAGE, "systems", table(results))
        draw(results)
        return
    for measure in options.only:
        all_of(
            missing_jobs(measure, options),
            lambda job: measured(job, options),
            options.results,
            parallel=options.parallel if measure == "bleu" else 1,
            minutes=options.minutes,
        )
    print(table(results_in(options.results)))


def _options(words: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--text", type=Path, default=Path("data/multi30k"), help="the test set")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", nargs="+", help="names of some rows")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--keep", type=Path, default=Path("runs/systems"), help="for models")
    parser.add_argument("--rounds", type=int, default=3, help="of what is timed")
    parser.add_argument("--updates", type=int, default=UPDATES, help="of a round of training")
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    parser.add_argument("--set", nargs="+", default=[], help="settings for all rows")
    add_options(parser, "systems", runs="runs/systems-training", seeds=1)
    parser.add_argument("--write", action="store_true", help="table and picture; measure nothing")
    return parser.parse_args(words)


def missing_jobs(measure: str, options: Any) -> list[Job]:
    """Round by round, so that whatever else a machine does falls on all rows alike."""
    rows = [row for row in ROWS if row.name in (options.rows or [row.name])]
    rounds = 1 if measure == "bottleneck" else options.rounds
    numbers = options.seeds if measure == "bleu" else range(1, rounds + 1)
    device = device_named(options.device).type
    jobs = [Job(measure, row, number, device) for number in numbers for row in rows]
    done = results_in(options.results)
    return [job for job in jobs if not any(job.identity.items() <= one.items() for one in done)]


def measured(job: Job, options: Any) -> Tree:
    """What a job is for, what came out, and where."""
    measures = {"bleu": trained, "training": timed, "speed": translating, "bottleneck": seen}
    found = machine.described(job.device)
    about = {"machine": found["device"], "cores": found["cores"], "torch": torch.__version__}
    return {**job.identity, **measures[job.measure](job, options), **about}


def trained(job: Job, options: Any) -> Tree:
    """Train a row with a seed, keep its model, and translate the test set."""
    out = options.runs / f"{job.row.name}-{job.number}"
    _train(job, out, options, f"training.seed={job.number}")
    kept = _kept(job.row, job.number, options)
    kept.mkdir(parents=True, exist_ok=True)
    for name in MODEL_FILES:
        shutil.copy(out / name, kept / name)
    files = (str(options.text / f"{TEST}.{language}") for language in ("en", "de"))
    where = "--lowercase", "--engine", "torch", "--device", job.device
    return {
        "bleu": bleu(kept, *files, *where),
        "parameters": parameters_of(kept),
        "steps": read_metrics(kept)[-1]["step"],
        "seconds": seconds_of(kept),
        "side by side": options.parallel,
    }


def timed(job: Job, options: Any) -> Tree:
    """Some updates with nobody else on the device: the median over stretches of twenty."""
    out = options.runs / f"{job.row.name}-timed"
    shutil.rmtree(out, ignore_errors=True)
    _train(job, out, options, f"training.max_steps={options.updates}", "training.log_every=20")
    rows = [row for row in read_metrics(out) if "loss" in row]
    counted = [row for row in rows if row["step"] >= options.updates * WARM_UP // UPDATES]
    shutil.rmtree(out)

    def pace(name: str) -> float:
        pairs = itertools.pairwise(counted)
        return statistics.median(
            (b[name] - a[name]) / (b["seconds"] - a["seconds"]) for a, b in pairs
        )

    return {"updates": pace("step"), "tokens": pace("target_tokens")}


def _train(job: Job, out: Path, options: Any, *more: str) -> None:
    words = settings(*QUIET, *job.row.settings, *options.set, *more)
    recipe = f"recipes/{job.row.recipe}.toml"
    regard("train", recipe, "--out", str(out), "--device", job.device, *words)


def _kept(row: Row, seed: int, options: Any) -> Path:
    folder: Path = options.keep / f"{row.name}-{seed}"
    return folder


def translating(job: Job, options: Any) -> Tree:
    """Sentences a second of the first seed's model, one after the other and in batches."""
    model = _compared(job, options, "--one-by-one", str(ONE_BY_ONE), "--batch-size", str(BATCH))
    speed = model["speed"]
    found = {"batch 1": speed["one_by_one"], f"batch {BATCH}": speed["in_batches"]}
    return {**found, "bleu": model["quality"]["bleu"]}


def seen(job: Job, options: Any) -> Tree:
    """How the first seed's model does by length, and how far back its gradients reach."""
    model = _compared(job, options, "--one-by-one", "1", "--gradients", str(ONE_BY_ONE))
    return {"by_length": model["quality"]["by_length"], "reach": model["reach"]["before"]}


def _compared(job: Job, options: Any, *more: str) -> Tree:
    test = ["--source", str(options.text / f"{TEST}.en"), "--lowercase"]
    test += ["--reference", str(options.text / f"{TEST}.de"), "--rounds", "1"]
    how = ["--device", job.device, "--format", "json"]
    folder = str(_kept(job.row, options.seeds[0], options))
    told = regard("compare", folder, *test, *how, *more, threads=options.threads)
    [model] = json.loads(told)["results"]
    found: Tree = model
    return found


def table(results: Sequence[Tree]) -> str:
    """A line for each row that something is known of."""
    lines = [
        "| system | BLEU | parameters | training, one GPU | tokens a second | GPU, one by one "
        "| GPU, 100 at a time | two cores, one by one | two cores, 100 at a time |",
        "|---" * 9 + "|",
    ]
    for row in ROWS:
        own = [one for one in results if one["row"] == row.name]
        if own:
            lines.append(_line(row, own))
    return "\n".join(lines)


def _line(row: Row, own: Sequence[Tree]) -> str:
    def found(measure: str, name: str, device: str = "cuda") -> list[float]:
        kept = [one for one in own if (one["measure"], one["device"]) == (measure, device)]
        return [one[name] for one in kept]

    bleus, updates = found("bleu", "bleu"), found("training", "updates")
    minutes = [
        steps / statistics.median(updates) / 60 for steps in found("bleu", "steps") if updates
    ]
    cells = [
        _mean_and_spread(bleus),
        _middle([size / 1e6 for size in found("bleu", "parameters")], ".2f", "M"),
        _middle(minutes, ".1f", " min"),
        _middle(found("training", "tokens")),
    ]
    for device in ("cuda", "cpu"):
        cells += [_middle(found("speed", f"batch {size}", device)) for size in (1, BATCH)]
    return f"| {row.title} | " + " | ".join(cells) + " |"


def draw(results: Sequence[Tree]) -> None:
    """BLEU by length, and the gradient at the first word before training, of some rows."""
    titles = {row.name: row.title for row in ROWS}
    found = {
        titles[one["row"]]: one
        for name in DRAWN
        for one in results
        if (one["measure"], one["row"]) == ("bottleneck", name)
    }
    if not found:
        return
    groups = next(iter(found.values()))["by_length"]
    lengths = plots.Panel(
        "BLEU by length",
        "words of the reference",
        range(len(groups)),
        {title: [group["bleu"] for group in one["by_length"]] for title, one in found.items()},
        [LengthBucket(**group).words for group in groups],
    )
    places = range(1, 1 + min(len(one["reach"]) for one in found.values()))
    reach = plots.Panel(
        "gradient at the first word, before training",
        "subword written",
        places,
        {title: one["reach"][: len(places)] for title, one in found.items()},
        logarithmic=True,
    )
    plots.line_panels(PICTURE, [lengths, reach])


def _mean_and_spread(figures: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{statistics.mean(figures):.2f}{spread}" if figures else ""


def _middle(figures: Sequence[float], form: str = ",.0f", unit: str = "") -> str:
    return f"{statistics.median(figures):{form}}{unit}" if figures else ""


if __name__ == "__main__":
    main()

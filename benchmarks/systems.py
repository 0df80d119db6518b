"""RNN, convolutional and Transformer models on Multi30k: docs/results/architectures.md.

    python benchmarks/systems.py --text multi30k --parallel 8       # on a GPU: all but CPU speeds
    python benchmarks/systems.py --text multi30k --device cpu --only speed
    python benchmarks/systems.py --write                # write table and picture into docs/

`--text` is the folder of test_2016_flickr.en and .de; the data is prepared as in the recipes. The
measurements of each row, in this order:

    bleu        full training, several runs in parallel, then BLEU with a beam of 5
    training    a few hundred updates, one run at a time: updates and target tokens per second
    speed       one run at a time: sentences per second, one by one and in batches of 100, beam 5
    bottleneck  BLEU by length, and the gradient at the first word; on any device

Each result is stored at once, and models in `--keep`, so the same command resumes after an
interruption.
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
from regard.devices import resolve_device
from regard.evaluation.analysis import LengthBucket
from regard.training.metrics_log import read_metrics
from runner import (
    Tree,
    add_options,
    count_parameters,
    evaluate_bleu,
    read_results,
    run_jobs,
    run_regard,
    setting_options,
    training_seconds,
    unfinished_jobs,
)

PAGE = Path("docs/results/architectures.md")
TEST = "test_2016_flickr"
MEASURES = ["bleu", "training", "speed", "bottleneck"]
PICTURE = Path("docs/pictures/bottleneck.png")
PLOTTED = ["recurrent-none", "recurrent-additive", "transformer"]
BATCH = 100
ONE_BY_ONE = 200  # sentences
UPDATES, WARM_UP = 400, 200  # timed updates; the first are not counted
QUIET = ("training.tensorboard=false", "training.validate_bleu=false")
MODEL_FILES = ("config.json", "tokenizer.model", "model.safetensors", "run.json", "metrics.jsonl")


@dataclass(frozen=True)
class Row:
    """A recipe with changed settings; folders are named after `name`."""

    name: str
    title: str
    recipe: str
    settings: tuple[str, ...] = ()


def _recurrent(name: str, title: str, *more: str) -> Row:
    return Row(f"recurrent-{name}", f"LSTM, {title}", "multi30k-recurrent", more)


_HARD, _DRAWN = "model.attention.select=hard", "model.attention.select=sampled"
ROWS = [
    Row("recurrent-none", "LSTM without attention", "multi30k-recurrent-no-attention"),
    _recurrent("additive", "additive attention"),
    _recurrent("dot", "dot products", "model.attention.score=dot"),
    _recurrent("bilinear", "bilinear attention", "model.attention.score=bilinear"),
    _recurrent("hard", "additive and hard, straight-through", _HARD),
    _recurrent(
        "reinforce",
        "additive and drawn, REINFORCE",
        *(_DRAWN, "model.attention.estimator=reinforce"),
    ),
    Row("convolutional", "convolutions", "multi30k-convolutional"),
    Row("transformer", "Transformer", "multi30k-en-de"),
]


@dataclass(frozen=True)
class Job:
    """A measurement; `number` is a seed, or the number of the round."""

    measure: str
    row: Row
    number: int
    device: str

    @property
    def identity(self) -> Tree:
        """The fields that identify its result."""
        return {**vars(self), "row": self.row.name}


def main() -> None:
    """Run the missing measurements, or write the table."""
    options = _options()
    if options.write:
        results = read_results(options.results)
        fill(PAGE, "systems", table(results))
        draw(results)
        return
    for measure in options.only:
        run_jobs(
            missing_jobs(measure, options),
            lambda job: run_job(job, options),
            options.results,
            parallel=options.parallel if measure == "bleu" else 1,
            minutes=options.minutes,
        )
    print(table(read_results(options.results)))


def _options(arguments: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--text", type=Path, default=Path("data/multi30k"), help="folder of the test set"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", nargs="+", help="only these rows")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument(
        "--keep", type=Path, default=Path("runs/systems"), help="folder of trained models"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of timed measurements")
    parser.add_argument("--updates", type=int, default=UPDATES, help="updates of a training round")
    parser.add_argument("--threads", type=int, default=2, help="CPU threads")
    parser.add_argument("--set", nargs="+", default=[], help="settings for all rows")
    add_options(parser, "systems", runs="runs/systems-training", seeds=1)
    parser.add_argument("--write", action="store_true", help="only write table and picture")
    return parser.parse_args(arguments)


def missing_jobs(measure: str, options: Any) -> list[Job]:
    """The jobs without a result, round by round, so that other load affects all rows alike."""
    rows = [row for row in ROWS if row.name in (options.rows or [row.name])]
    rounds = 1 if measure == "bottleneck" else options.rounds
    numbers = options.seeds if measure == "bleu" else range(1, rounds + 1)
    device = resolve_device(options.device).type
    jobs = [Job(measure, row, number, device) for number in numbers for row in rows]
    return unfinished_jobs(jobs, options.results)


def run_job(job: Job, options: Any) -> Tree:
    """Run a job; returns its identity, its measurements and the machine."""
    measures = {
        "bleu": train_and_evaluate,
        "training": time_updates,
        "speed": time_translation,
        "bottleneck": analyze_bottleneck,
    }
    hardware = machine.describe(job.device)
    about = {"machine": hardware["device"], "cores": hardware["cores"], "torch": torch.__version__}
    return {**job.identity, **measures[job.measure](job, options), **about}


def train_and_evaluate(job: Job, options: Any) -> Tree:
    """Train a row with a seed, store its model, and evaluate on the test set."""
    out = options.runs / f"{job.row.name}-{job.number}"
    _train(job, out, options, f"training.seed={job.number}")
    model = _model_folder(job.row, job.number, options)
    model.mkdir(parents=True, exist_ok=True)
    for name in MODEL_FILES:
        shutil.copy(out / name, model / name)
    files = (str(options.text / f"{TEST}.{language}") for language in ("en", "de"))
    device_options = "--lowercase", "--backend", "torch", "--device", job.device
    return {
        "bleu": evaluate_bleu(model, *files, *device_options),
        "parameters": count_parameters(model),
        "steps": read_metrics(model)[-1]["step"],
        "seconds": training_seconds(model),
        "side by side": options.parallel,
    }


def time_updates(job: Job, options: Any) -> Tree:
    """Time some updates on an idle device: the median over intervals of 20 updates."""
    out = options.runs / f"{job.row.name}-timed"
    shutil.rmtree(out, ignore_errors=True)
    _train(job, out, options, f"training.max_steps={options.updates}", "training.log_every=20")
    rows = [row for row in read_metrics(out) if "loss" in row]
    counted = [row for row in rows if row["step"] >= options.updates * WARM_UP // UPDATES]
    shutil.rmtree(out)

    def rate(name: str) -> float:
        pairs = itertools.pairwise(counted)
        return statistics.median(
            (b[name] - a[name]) / (b["seconds"] - a["seconds"]) for a, b in pairs
        )

    return {"updates": rate("step"), "tokens": rate("target_tokens")}


def _train(job: Job, out: Path, options: Any, *more: str) -> None:
    arguments = setting_options(*QUIET, *job.row.settings, *options.set, *more)
    recipe = f"recipes/{job.row.recipe}.toml"
    run_regard("train", recipe, "--out", str(out), "--device", job.device, *arguments)


def _model_folder(row: Row, seed: int, options: Any) -> Path:
    folder: Path = options.keep / f"{row.name}-{seed}"
    return folder


def time_translation(job: Job, options: Any) -> Tree:
    """Sentences per second of the first seed's model, one by one and in batches."""
    model = _run_compare(
        job, options, "--latency-sentences", str(ONE_BY_ONE), "--batch-size", str(BATCH)
    )
    speed = model["speed"]
    speeds = {"batch 1": speed["one_by_one"], f"batch {BATCH}": speed["in_batches"]}
    return {**speeds, "bleu": model["quality"]["bleu"]}


def analyze_bottleneck(job: Job, options: Any) -> Tree:
    """BLEU by length of the first seed's model, and gradients at its first word."""
    model = _run_compare(job, options, "--latency-sentences", "1", "--gradients", str(ONE_BY_ONE))
    return {"by_length": model["quality"]["by_length"], "reach": model["reach"]["before"]}


def _run_compare(job: Job, options: Any, *more: str) -> Tree:
    test = ["--source", str(options.text / f"{TEST}.en"), "--lowercase"]
    test += ["--reference", str(options.text / f"{TEST}.de"), "--rounds", "1"]
    output_options = ["--device", job.device, "--format", "json"]
    folder = str(_model_folder(job.row, options.seeds[0], options))
    output = run_regard("compare", folder, *test, *output_options, *more, threads=options.threads)
    [model] = json.loads(output)["results"]
    report: Tree = model
    return report


def table(results: Sequence[Tree]) -> str:
    """A line for each row that has results."""
    lines = [
        "| system | BLEU | parameters | training time, GPU | training tokens/s | GPU, batch 1 "
        "| GPU, batch 100 | 2 CPU cores, batch 1 | 2 CPU cores, batch 100 |",
        "|---" * 9 + "|",
    ]
    for row in ROWS:
        row_results = [result for result in results if result["row"] == row.name]
        if row_results:
            lines.append(_line(row, row_results))
    return "\n".join(lines)


def _line(row: Row, row_results: Sequence[Tree]) -> str:
    def values(measure: str, name: str, device: str = "cuda") -> list[float]:
        matching = [
            result
            for result in row_results
            if (result["measure"], result["device"]) == (measure, device)
        ]
        return [result[name] for result in matching]

    bleus, updates = values("bleu", "bleu"), values("training", "updates")
    minutes = [
        steps / statistics.median(updates) / 60 for steps in values("bleu", "steps") if updates
    ]
    cells = [
        _mean_and_spread(bleus),
        _median_cell([size / 1e6 for size in values("bleu", "parameters")], ".2f", "M"),
        _median_cell(minutes, ".1f", " min"),
        _median_cell(values("training", "tokens")),
    ]
    for device in ("cuda", "cpu"):
        cells += [_median_cell(values("speed", f"batch {size}", device)) for size in (1, BATCH)]
    return f"| {row.title} | " + " | ".join(cells) + " |"


def draw(results: Sequence[Tree]) -> None:
    """Draw BLEU by length, and the gradient at the first word before training, of some rows."""
    titles = {row.name: row.title for row in ROWS}
    by_title = {
        titles[result["row"]]: result
        for name in PLOTTED
        for result in results
        if (result["measure"], result["row"]) == ("bottleneck", name)
    }
    if not by_title:
        return
    groups = next(iter(by_title.values()))["by_length"]
    lengths = plots.Panel(
        "BLEU by length",
        "words of the reference",
        range(len(groups)),
        {
            title: [group["bleu"] for group in result["by_length"]]
            for title, result in by_title.items()
        },
        [LengthBucket(**group).words for group in groups],
    )
    positions = range(1, 1 + min(len(result["reach"]) for result in by_title.values()))
    reach = plots.Panel(
        "gradient at the first word, before training",
        "subword written",
        positions,
        {title: result["reach"][: len(positions)] for title, result in by_title.items()},
        logarithmic=True,
    )
    plots.plot_line_panels(PICTURE, [lengths, reach])


def _mean_and_spread(figures: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{statistics.mean(figures):.2f}{spread}" if figures else ""


def _median_cell(figures: Sequence[float], spec: str = ",.0f", unit: str = "") -> str:
    return f"{statistics.median(figures):{spec}}{unit}" if figures else ""


if __name__ == "__main__":
    main()

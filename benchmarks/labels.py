"""Labels from scratch, from an encoder pre-trained here, from an imported one: docs/finetuning.md.

    python benchmarks/labels.py --prepare --text shared/data --minilm all-MiniLM-L6-v2
    python benchmarks/labels.py --parallel 6     # on a GPU: pre-trains, then trains what is missing
    python benchmarks/labels.py --write          # the tables, into docs/

`--text` has the folders ud-ewt, sst2 and text; `--minilm` is a folder with the published encoder.
Only `--prepare` reads text, so only it needs the package `tokenizers`: whatever it made under
`--data` can be taken to a machine with the core dependencies alone.

Parts of speech are learned from all sentences of the treebank; sentiment from all phrases of SST-2,
and from 1,000 whole sentences, drawn anew for each seed. The dev sets are looked at once in each
run, after its last update: they choose no weights. Results are kept one by one, so the same command
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import machine
from label_texts import prepare
from pages import fill
from regard.devices import device_named
from regard.training.metrics_log import read_metrics
from side_by_side import Tree, add_options, all_of, regard, results_in, seconds_of, settings

PAGES = [Path("docs/finetuning.md"), Path("docs/zh/finetuning.md")]
FEW = 1000  # labelled sentences
PRETRAINED = "pretrained"  # the run whose encoder others begin with
# The same stack for all that is trained here; MiniLM brings its own.
STACK = (
    *("model.layers=4", "model.width=256", "model.heads=4", "model.feedforward_width=512"),
    *("model.norm_order=pre", "model.positions=rotary", "model.activation=gelu"),
    "model.max_positions=256",
)
CONVOLUTIONS = "model.feedforward=convolution"
AS_MANY = "model.feedforward_width=1536"  # then linear layers have as many weights as convolutions
SCHEDULE = (
    *("training.optimizer=adamw", "training.weight_decay=0.01", "training.schedule=linear"),
    "training.tensorboard=false",
)
PRETRAINING = (
    *("model.kind=masked", *STACK, CONVOLUTIONS, *SCHEDULE),
    *("model.dropout=0.1", "data.batch_tokens=16384", "training.learning_rate=1e-3"),
    *("training.label_smoothing=0", "training.warmup_steps=1000"),
    *("training.max_steps=12000", "training.checkpoint_every=1000", "training.keep_checkpoints=1"),
)


@dataclass(frozen=True)
class Row:
    """A way to a tagger or classifier; `name` is that of its folders."""

    name: str
    titles: tuple[str, str]  # in the languages of the pages
    data: str  # what its text was cut by
    begins_with: str | None  # a model, of this program or imported
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """What is learned, by which rows, and from how many labelled examples: 0 are all of them."""

    name: str
    sizes: tuple[int, ...]
    settings: tuple[str, ...]
    rows: tuple[Row, ...]


def _tagging() -> Task:
    # Words are cut anew in each epoch, so that rare ones are known by their parts.
    fresh = ("data.sampling_candidates=16", "data.sampling_temperature=3")
    common = (
        *("model.kind=tagger", "model.pooling=mean", "model.characters=32", *fresh),
        *("model.word_dropout=0.1", "training.label_smoothing=0.1", "training.warmup_steps=200"),
    )
    scratch = (*STACK, "model.dropout=0.3", "training.learning_rate=2e-3")
    tuned = ("model.dropout=0.3", "training.learning_rate=1e-3")
    rows = (
        Row("plain", ("plain feed-forward", "普通前馈"), "ewt", None, (*scratch, AS_MANY)),
        Row("conv", ("convolutions", "卷积"), "ewt", None, (*scratch, CONVOLUTIONS)),
        Row("tuned", ("convolutions, pre-trained", "卷积，预训练"), "ewt-text", PRETRAINED, tuned),
    )
    return Task("tagging", (0,), common, rows)


def _sentiment() -> Task:
    common = (
        *("model.kind=classifier", "training.label_smoothing=0.1"),
        "training.warmup_steps=50",
    )
    dropout = ("model.dropout=0.3", "model.word_dropout=0.1")
    scratch = (*STACK, CONVOLUTIONS, *dropout, "training.learning_rate=5e-4")
    tuned = (*dropout, "training.learning_rate=3e-4")
    frozen = ('training.freeze=["embeddings","encoder"]', "training.learning_rate=3e-3")
    adapted = ("training.lora.rank=8", "training.learning_rate=1e-3")
    full = ("training.learning_rate=1e-4",)
    rows = (
        Row("scratch", ("from scratch", "从零开始"), "sst2-text", None, scratch),
        Row("tuned", ("pre-trained here", "在此预训练"), "sst2-text", PRETRAINED, tuned),
        Row("frozen", ("MiniLM, frozen", "MiniLM，冻结"), "sst2-minilm", "minilm", frozen),
        Row("lora", ("MiniLM, LoRA", "MiniLM，LoRA"), "sst2-minilm", "minilm", adapted),
        Row("full", ("MiniLM, all weights", "MiniLM，全部权重"), "sst2-minilm", "minilm", full),
    )
    return Task("sentiment", (FEW, 0), common, rows)


TASKS = (_tagging(), _sentiment())
# What suits so many labelled examples.
SIZES = {
    ("tagging", 0): ("data.batch_tokens=2048", "training.max_steps=6000"),
    ("sentiment", FEW): ("data.batch_tokens=1024", "training.max_steps=400"),
    ("sentiment", 0): ("data.batch_tokens=2048", "training.max_steps=4000"),
}


@dataclass(frozen=True)
class Job:
    """A run to be made."""

    task: Task
    row: Row
    labelled: int
    seed: int

    @property
    def identity(self) -> Tree:
        """As it is found again among results."""
        names = {"task": self.task.name, "row": self.row.name}
        return {**names, "labelled": self.labelled, "seed": self.seed}

    @property
    def name(self) -> str:
        """Of its folder."""
        return "-".join(map(str, self.identity.values()))

    @property
    def data(self) -> str:
        """The store that it reads; few sentences are others for each seed."""
        return f"{self.row.data}-{self.labelled}-{self.seed}" if self.labelled else self.row.data

    @property
    def settings(self) -> tuple[str, ...]:
        """All that differs from the defaults."""
        size = SIZES[self.task.name, self.labelled]
        seed = f"training.seed={self.seed}"
        return (*SCHEDULE, *self.task.settings, *size, *self.row.settings, seed)


def main() -> None:
    """Prepare, train what is missing, or write the tables."""
    options = _options()
    if options.prepare:
        prepare(options.text, options.minilm, options.data, few=FEW, seeds=options.seeds)
        return
    if options.write:
        write(results_in(options.results))
        return
    jobs = missing_jobs(options)
    if any(job.row.begins_with == PRETRAINED for job in jobs):
        pretrain(options)
    all_of(
        jobs,
        lambda job: measured(job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    for task in TASKS:
        print(table(task, results_in(options.results)))


def _options(words: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--prepare", action="store_true", help="make the data; train nothing")
    parser.add_argument("--text", type=Path, default=Path("shared/data"))
    parser.add_argument("--minilm", type=Path, default=Path("all-MiniLM-L6-v2"))
    parser.add_argument("--data", type=Path, default=Path("data/labels"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS])
    parser.add_argument("--rows", nargs="+", help="names of some rows")
    parser.add_argument("--set", nargs="+", default=[], help="settings for all runs")
    parser.add_argument("--threads", type=int, default=1, help="of each run, on a CPU")
    add_options(parser, "labels", runs="runs/labels", seeds=3)
    parser.add_argument("--write", action="store_true", help="the tables; train nothing")
    return parser.parse_args(words)


def missing_jobs(options: Any) -> list[Job]:
    """Seed by seed, so that an early end leaves something of every row."""
    jobs = [
        Job(task, row, labelled, seed)
        for seed in options.seeds
        for task in TASKS
        for labelled in task.sizes
        for row in task.rows
        if task.name in (options.tasks or [task.name]) and row.name in (options.rows or [row.name])
    ]
    done = results_in(options.results)
    return [job for job in jobs if not any(job.identity.items() <= one.items() for one in done)]


def pretrain(options: Any) -> None:
    """An encoder that finds hidden words of the text at hand; what is finished stays as it is."""
    out = options.runs / PRETRAINED
    where = ["--data", str(options.data / "text"), "--out", str(out), "--device", options.device]
    words = settings(*PRETRAINING, *options.set)
    regard("train", *where, *words, threads=options.threads)


def measured(job: Job, options: Any) -> Tree:
    """Train a row with a seed: how many labels of the dev set are right at the end."""
    out = options.runs / job.name
    where = ["--data", str(options.data / job.data), "--out", str(out), "--device", options.device]
    if job.row.begins_with is not None:
        home = options.runs if job.row.begins_with == PRETRAINED else options.data
        where += ["--from", str(home / job.row.begins_with)]
    once = "training.checkpoint_every=1000000"  # then the end is the only validation
    words = settings(*job.settings, once, *options.set)
    regard("train", *where, *words, threads=options.threads)
    last = [row for row in read_metrics(out) if "accuracy" in row][-1]
    found = machine.described(device_named(options.device).type)
    return {
        **job.identity,
        "accuracy": 100 * last["accuracy"],
        "steps": last["step"],
        "seconds": seconds_of(out),
        "side by side": options.parallel,
        "machine": found["device"],
        "torch": torch.__version__,
    }


def write(results: Sequence[Tree]) -> None:
    """Every table into every page."""
    for language, page in enumerate(PAGES):
        for task in TASKS:
            fill(page, task.name, table(task, results, language))


def table(task: Task, results: Sequence[Tree], language: int = 0) -> str:
    """A line for each row that something is known of: mean and spread, and each seed."""
    names = (("encoder", "all labels", f"{FEW:,} sentences"), ("编码器", "全部标注", f"{FEW:,} 句"))
    encoder, every, few = names[language]
    heads = [encoder, *(few if labelled else every for labelled in task.sizes)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in task.rows:
        own = [one for one in results if (one["task"], one["row"]) == (task.name, row.name)]
        if own:
            figures = (_accuracies(own, labelled) for labelled in task.sizes)
            cells = " | ".join(map(_mean_and_spread, figures))
            lines.append(f"| {row.titles[language]} | {cells} |")
    return "\n".join(lines)


def _accuracies(results: Sequence[Tree], labelled: int) -> list[float]:
    own = [one for one in results if one["labelled"] == labelled]
    return [one["accuracy"] for one in sorted(own, key=lambda one: one["seed"])]


def _mean_and_spread(figures: Sequence[float]) -> str:
    if len(figures) < 2:
        return "".join(f"{figure:.2f}" for figure in figures)
    each = ", ".join(f"{figure:.2f}" for figure in figures)
    return f"**{statistics.mean(figures):.2f}** ± {statistics.stdev(figures):.2f} ({each})"


if __name__ == "__main__":
    main()

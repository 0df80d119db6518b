"""Taggers and classifiers from scratch, pre-trained and imported: docs/guides/pretraining.md.

    python benchmarks/labels.py --prepare --text shared/data --minilm all-MiniLM-L6-v2
    python benchmarks/labels.py --parallel 6     # on a GPU: pre-train, then train missing runs
    python benchmarks/labels.py --write          # write the tables into docs/

`--text` has the folders ud-ewt, sst2 and text; `--minilm` is a folder with the published encoder.
Only `--prepare` reads text and needs the package `tokenizers`; the data under `--data` can be
copied to a machine with the core dependencies only.

Taggers are trained on all sentences of the treebank; classifiers on all phrases of SST-2, and on
1,000 whole sentences, sampled for each seed. The dev sets are evaluated once per run, after the
last update, and not used to select weights. Each result is stored at once, so the same command
resumes after an interruption.
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
from label_corpora import prepare
from pages import fill
from regard.devices import resolve_device
from regard.training.metrics_log import read_metrics
from runner import (
    Tree,
    add_options,
    read_results,
    run_jobs,
    run_regard,
    setting_options,
    training_seconds,
    unfinished_jobs,
)

PAGES = [Path("docs/guides/pretraining.md"), Path("docs/zh/pretraining.md")]
FEW = 1000  # labelled sentences
PRETRAINED = "pretrained"  # the run whose encoder initializes others
# The encoder of all models but MiniLM.
STACK = (
    *("model.num_layers=4", "model.d_model=256", "model.num_heads=4", "model.ffn_dim=512"),
    *("model.norm_order=pre", "model.positional_encoding=rotary", "model.activation=gelu"),
    "model.max_positions=256",
)
CONVOLUTIONS = "model.ffn_type=convolution"
SAME_PARAMETERS = "model.ffn_dim=1536"  # as many parameters as with convolutions
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
    """A tagger or classifier; folders are named after `name`."""

    name: str
    titles: tuple[str, str]  # in the languages of the pages
    data: str  # store, by tokenizer
    init_from: str | None  # the pre-trained or imported model
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """A task with its rows and numbers of labelled examples; 0 stands for all."""

    name: str
    sizes: tuple[int, ...]
    settings: tuple[str, ...]
    rows: tuple[Row, ...]


def _tagging() -> Task:
    # Subword regularization improves the tagging of rare words.
    sampling = ("data.subword_nbest_size=16", "data.subword_temperature=3")
    common = (
        *("model.kind=tagger", "model.pooling=mean", "model.char_embedding_dim=32", *sampling),
        *("model.word_dropout=0.1", "training.label_smoothing=0.1", "training.warmup_steps=200"),
    )
    scratch = (*STACK, "model.dropout=0.3", "training.learning_rate=2e-3")
    tuned = ("model.dropout=0.3", "training.learning_rate=1e-3")
    rows = (
        Row("plain", ("plain feed-forward", "普通前馈"), "ewt", None, (*scratch, SAME_PARAMETERS)),
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
# Settings by task and number of labelled examples.
SIZES = {
    ("tagging", 0): ("data.batch_tokens=2048", "training.max_steps=6000"),
    ("sentiment", FEW): ("data.batch_tokens=1024", "training.max_steps=400"),
    ("sentiment", 0): ("data.batch_tokens=2048", "training.max_steps=4000"),
}


@dataclass(frozen=True)
class Job:
    """A training run."""

    task: Task
    row: Row
    labelled: int
    seed: int

    @property
    def identity(self) -> Tree:
        """The fields that identify its result."""
        names = {"task": self.task.name, "row": self.row.name}
        return {**names, "labelled": self.labelled, "seed": self.seed}

    @property
    def name(self) -> str:
        """The name of its folder."""
        return "-".join(map(str, self.identity.values()))

    @property
    def data(self) -> str:
        """Its store; samples of labelled sentences differ by seed."""
        return f"{self.row.data}-{self.labelled}-{self.seed}" if self.labelled else self.row.data

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings that differ from the defaults."""
        size = SIZES[self.task.name, self.labelled]
        seed = f"training.seed={self.seed}"
        return (*SCHEDULE, *self.task.settings, *size, *self.row.settings, seed)


def main() -> None:
    """Prepare the data, train the missing runs, or write the tables."""
    options = _options()
    if options.prepare:
        prepare(options.text, options.minilm, options.data, few=FEW, seeds=options.seeds)
        return
    if options.write:
        write(read_results(options.results))
        return
    jobs = missing_jobs(options)
    if any(job.row.init_from == PRETRAINED for job in jobs):
        pretrain(options)
    run_jobs(
        jobs,
        lambda job: run_job(job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    for task in TASKS:
        print(table(task, read_results(options.results)))


def _options(arguments: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--prepare", action="store_true", help="only prepare the data")
    parser.add_argument("--text", type=Path, default=Path("shared/data"))
    parser.add_argument("--minilm", type=Path, default=Path("all-MiniLM-L6-v2"))
    parser.add_argument("--data", type=Path, default=Path("data/labels"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tasks", nargs="+", choices=[task.name for task in TASKS])
    parser.add_argument("--rows", nargs="+", help="only these rows")
    parser.add_argument("--set", nargs="+", default=[], help="settings of all runs")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads per run")
    add_options(parser, "labels", runs="runs/labels", seeds=3)
    parser.add_argument("--write", action="store_true", help="only write the tables")
    return parser.parse_args(arguments)


def missing_jobs(options: Any) -> list[Job]:
    """The jobs without a result, seed by seed, so that all rows have results early."""
    jobs = [
        Job(task, row, labelled, seed)
        for seed in options.seeds
        for task in TASKS
        for labelled in task.sizes
        for row in task.rows
        if task.name in (options.tasks or [task.name]) and row.name in (options.rows or [row.name])
    ]
    return unfinished_jobs(jobs, options.results)


def pretrain(options: Any) -> None:
    """Pre-train the masked language model; a finished run is kept."""
    out = options.runs / PRETRAINED
    paths = ["--data", str(options.data / "text"), "--out", str(out), "--device", options.device]
    arguments = setting_options(*PRETRAINING, *options.set)
    run_regard("train", *paths, *arguments, threads=options.threads)


def run_job(job: Job, options: Any) -> Tree:
    """Train a row with a seed; returns the final accuracy on the dev set."""
    out = options.runs / job.name
    paths = ["--data", str(options.data / job.data), "--out", str(out), "--device", options.device]
    if job.row.init_from is not None:
        home = options.runs if job.row.init_from == PRETRAINED else options.data
        paths += ["--from", str(home / job.row.init_from)]
    once = "training.checkpoint_every=1000000"  # validate only at the end
    arguments = setting_options(*job.settings, once, *options.set)
    run_regard("train", *paths, *arguments, threads=options.threads)
    last = [row for row in read_metrics(out) if "accuracy" in row][-1]
    hardware = machine.describe(resolve_device(options.device).type)
    return {
        **job.identity,
        "accuracy": 100 * last["accuracy"],
        "steps": last["step"],
        "seconds": training_seconds(out),
        "side by side": options.parallel,
        "machine": hardware["device"],
        "torch": torch.__version__,
    }


def write(results: Sequence[Tree]) -> None:
    """Write all tables into all pages."""
    for language, page in enumerate(PAGES):
        for task in TASKS:
            fill(page, task.name, table(task, results, language))


def table(task: Task, results: Sequence[Tree], language: int = 0) -> str:
    """A line for each row with results: mean, standard deviation, and each seed."""
    names = (("encoder", "all labels", f"{FEW:,} sentences"), ("编码器", "全部标注", f"{FEW:,} 句"))
    encoder, every, few = names[language]
    heads = [encoder, *(few if labelled else every for labelled in task.sizes)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in task.rows:
        row_results = [
            result for result in results if (result["task"], result["row"]) == (task.name, row.name)
        ]
        if row_results:
            figures = (_accuracies(row_results, labelled) for labelled in task.sizes)
            cells = " | ".join(map(_mean_and_spread, figures))
            lines.append(f"| {row.titles[language]} | {cells} |")
    return "\n".join(lines)


def _accuracies(results: Sequence[Tree], labelled: int) -> list[float]:
    row_results = [result for result in results if result["labelled"] == labelled]
    return [result["accuracy"] for result in sorted(row_results, key=lambda result: result["seed"])]


def _mean_and_spread(figures: Sequence[float]) -> str:
    if len(figures) < 2:
        return "".join(f"{figure:.2f}" for figure in figures)
    each = ", ".join(f"{figure:.2f}" for figure in figures)
    return f"**{statistics.mean(figures):.2f}** ± {statistics.stdev(figures):.2f} ({each})"


if __name__ == "__main__":
    main()

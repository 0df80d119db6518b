"""Domain adaptation of a translation model: full fine-tuning, and LoRA adapters of some ranks.

    python benchmarks/adapters.py --model runs/multi30k-en-de --text multi30k --new tatoeba-de-en
    python benchmarks/adapters.py --write                       # write the table into docs/

`--model` is trained on Multi30k, English to German, `--text` has its test set, and `--new` the text
of Tatoeba (train.en.gz, train.de.gz, valid.en, valid.de). The first half of valid is the validation
set, the second half the test set. Each row is trained with several learning rates; the table has
the one with the lowest validation loss. BLEU is lowercased, with a beam of 5. Each result is stored
at once, so the same command resumes after an interruption.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages import fill
from regard.data.line_reader import read_lines
from regard.devices import resolve_device
from regard.models.folder import WEIGHTS
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

PAGES = [Path("docs/guides/pretraining.md"), Path("docs/zh/pretraining.md")]
LANGUAGES = ("en", "de")
RATES = [5e-4, 2e-3, 8e-3]
METHOD = (
    "training.schedule=linear",
    "training.warmup_steps=200",
    "training.checkpoint_every=500",
    "training.keep_checkpoints=1",
    "training.validate_bleu=false",
    "training.tensorboard=false",
)


@dataclass(frozen=True)
class Row:
    """What is trained; folders are named after `name`."""

    name: str
    titles: tuple[str, str]  # in the languages of the pages
    settings: tuple[str, ...] = ()


def _adapters(layers: str, rank: int) -> Row:
    english, chinese = LAYERS_TITLES[layers]
    titles = f"adapters of rank {rank}, {english}", f"秩 {rank} 的适配器，{chinese}"
    chosen = f"training.lora.rank={rank}", f"training.lora.target_modules={layers}"
    return Row(f"{layers}-{rank}", titles, chosen)


LAYERS_TITLES = {
    "queries_values": ("queries and values", "查询和值"),
    "all": ("all linear layers", "所有线性层"),
}
BASE_MODEL = Row("origin", ("nothing", "不训练"))
ROWS = [
    BASE_MODEL,
    Row("full", ("all weights", "全部权重")),
    Row(
        "frozen",
        ("all but the embeddings", "嵌入之外的全部权重"),
        ('training.freeze=["embeddings"]',),
    ),
    _adapters("queries_values", 8),
    _adapters("all", 4),
    _adapters("all", 16),
    _adapters("all", 64),
]
HEADS = (
    "| trained | learning rate | BLEU, Tatoeba | BLEU, Multi30k | stored parameters | file |",
    "| 训练的参数 | 学习率 | BLEU，Tatoeba | BLEU，Multi30k | 保存的参数量 | 文件 |",
)


@dataclass(frozen=True)
class Job:
    """A row with a learning rate; 0 for the model before fine-tuning."""

    row: Row
    rate: float
    seed: int

    @property
    def identity(self) -> Tree:
        """The fields that identify its result."""
        return {"row": self.row.name, "rate": self.rate, "seed": self.seed}


def main() -> None:
    """Train and evaluate the missing rows, or write the table."""
    options = _options()
    if options.write:
        for language, page in enumerate(PAGES):
            fill(page, "adapters", table(read_results(options.results), language))
        return
    if not options.data.is_dir():
        prepare(options)
    run_jobs(
        missing_jobs(options),
        lambda job: run_job(job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(read_results(options.results)))


def _options(arguments: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("runs/multi30k-en-de"))
    parser.add_argument(
        "--text", type=Path, default=Path("data/multi30k"), help="folder of the Multi30k test set"
    )
    parser.add_argument("--new", type=Path, default=Path("data/tatoeba"), help="folder of Tatoeba")
    parser.add_argument(
        "--data", type=Path, default=Path("data/tatoeba-en-de"), help="prepared folder"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", nargs="+", help="only these rows")
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--set", nargs="+", default=[], help="settings for all rows")
    add_options(parser, "adapters", runs="runs/adapters", seeds=1)
    parser.add_argument("--write", action="store_true", help="only write the table")
    return parser.parse_args(arguments)


def prepare(options: Any) -> None:
    """Prepare the new text with the model's tokenizer; validation and test text lie beside it."""
    options.data.parent.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        lines = read_lines(options.new / f"valid.{language}")
        half = len(lines) // 2
        for part, held_out in (("valid", lines[:half]), ("test", lines[half:])):
            text = "".join(line + "\n" for line in held_out)
            _held_out(options, part, language).write_text(text, encoding="utf-8")
    sides = {"source": LANGUAGES[0], "target": LANGUAGES[1]}
    arguments = []
    for side, language in sides.items():
        arguments += [f"--{side}", str(options.new / f"train.{language}.gz")]
        arguments += [f"--valid-{side}", str(_held_out(options, "valid", language))]
        arguments += [f"--{side}-lang", language]
    run_regard(
        "prepare", *arguments, "--tokenizer-from", str(options.model), "--out", str(options.data)
    )


def _held_out(options: Any, part: str, language: str) -> Path:
    data: Path = options.data
    return data.with_name(f"{data.name}.{part}.{language}")


def missing_jobs(options: Any) -> list[Job]:
    """The jobs without a result; the base model once."""
    rows = [row for row in ROWS if row.name in (options.rows or [row.name])]
    jobs = [Job(BASE_MODEL, 0.0, 1)] if BASE_MODEL in rows else []
    jobs += [
        Job(row, rate, seed)
        for seed in options.seeds
        for rate in options.rates
        for row in rows
        if row != BASE_MODEL
    ]
    return unfinished_jobs(jobs, options.results)


def run_job(job: Job, options: Any) -> Tree:
    """Train, and evaluate on both domains."""
    device = resolve_device(options.device).type
    figures: Tree = {"device": device, "side by side": options.parallel}
    out: Path = options.model
    if job.row != BASE_MODEL:
        out = options.runs / f"{job.row.name}-{job.rate:g}-{job.seed}"
        _train(job, out, device, options)
        losses = [row["valid_loss"] for row in read_metrics(out) if "valid_loss" in row]
        figures |= {"loss": min(losses), "steps": options.steps, "seconds": training_seconds(out)}
    device_options = "--lowercase", "--backend", "torch", "--device", device
    old = (str(options.text / f"test_2016_flickr.{language}") for language in LANGUAGES)
    new = (str(_held_out(options, "test", language)) for language in LANGUAGES)
    figures |= {
        "old": evaluate_bleu(out, *old, *device_options),
        "new": evaluate_bleu(out, *new, *device_options),
    }
    stored = {"numbers": count_parameters(out), "bytes": (out / WEIGHTS).stat().st_size}
    return {**job.identity, **figures, **stored}


def _train(job: Job, out: Path, device: str, options: Any) -> None:
    rate, seed = f"training.learning_rate={job.rate}", f"training.seed={job.seed}"
    rates = rate, seed, f"training.max_steps={options.steps}"
    arguments = setting_options(*METHOD, *job.row.settings, *rates, *options.set)
    folders = ["--from", str(options.model), "--data", str(options.data), "--out", str(out)]
    run_regard("train", *folders, "--device", device, *arguments)


def table(results: Sequence[Tree], language: int = 0) -> str:
    """A line for each row, with its best learning rate."""
    lines = [HEADS[language], "|---" * 6 + "|"]
    for row in ROWS:
        row_results = [result for result in results if result["row"] == row.name]
        if row_results:
            lines.append(_line(row.titles[language], best_rate(row_results)))
    return "\n".join(lines)


def best_rate(results: Sequence[Tree]) -> list[Tree]:
    """The results of the learning rate with the lowest mean validation loss."""
    by_rate: dict[float, list[Tree]] = {}
    for result in results:
        by_rate.setdefault(result["rate"], []).append(result)
    return min(
        by_rate.values(),
        key=lambda row_results: statistics.mean(result.get("loss", 0) for result in row_results),
    )


def _line(title: str, row_results: Sequence[Tree]) -> str:
    rate = f"{row_results[0]['rate']:g}" if row_results[0]["rate"] else ""
    figures = (
        _mean_and_spread([result[name] for result in row_results]) for name in ("new", "old")
    )
    stored = f"{row_results[0]['numbers']:,}", f"{row_results[0]['bytes'] / 2**20:.2f} MB"
    return f"| {title} | " + " | ".join([rate, *figures, *stored]) + " |"


def _mean_and_spread(figures: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{statistics.mean(figures):.2f}{spread}"


if __name__ == "__main__":
    main()

"""A translator of captions learns another domain: all its weights, or adapters of some ranks.

    python benchmarks/adapters.py --model runs/multi30k-en-de --text multi30k --new tatoeba-de-en
    python benchmarks/adapters.py --write                       # the table, into docs/

`--model` is trained on Multi30k, English to German, `--text` has its test set, and `--new` the text
of Tatoeba (train.en.gz, train.de.gz, valid.en, valid.de). The latter's first half says which
weights and which rate are best, and the second half is translated: each row is trained at several
rates, and in the table stands the one whose validation loss is lowest. BLEU is of lower-cased text
with a beam of 5. Results are kept one by one, so the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages import fill
from regard.data.corpus import read_lines
from regard.devices import device_named
from regard.models.folder import WEIGHTS
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

PAGES = [Path("docs/finetuning.md"), Path("docs/zh/finetuning.md")]
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
    """What learns; `name` is that of its folders."""

    name: str
    titles: tuple[str, str]  # in the languages of the pages
    settings: tuple[str, ...] = ()


def _adapters(layers: str, rank: int) -> Row:
    english, chinese = PLACES[layers]
    titles = f"adapters of rank {rank}, {english}", f"秩 {rank} 的适配器，{chinese}"
    chosen = f"training.lora.rank={rank}", f"training.lora.layers={layers}"
    return Row(f"{layers}-{rank}", titles, chosen)


PLACES = {
    "queries_values": ("queries and values", "查询和值"),
    "all": ("all linear layers", "所有线性层"),
}
ORIGIN = Row("origin", ("nothing", "什么也不学"))
ROWS = [
    ORIGIN,
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
    "| what learns | rate | BLEU, Tatoeba | BLEU, Multi30k | numbers stored | file |",
    "| 学的是什么 | 学习率 | BLEU，Tatoeba | BLEU，Multi30k | 保存的数 | 文件 |",
)


@dataclass(frozen=True)
class Job:
    """A row, trained at a rate; nothing is trained at a rate of 0."""

    row: Row
    rate: float
    seed: int

    @property
    def identity(self) -> Tree:
        """As it is found again among results."""
        return {"row": self.row.name, "rate": self.rate, "seed": self.seed}


def main() -> None:
    """Train and measure what is missing, or write the table."""
    options = _options()
    if options.write:
        for language, page in enumerate(PAGES):
            fill(page, "adapters", table(results_in(options.results), language))
        return
    if not options.data.is_dir():
        prepare(options)
    all_of(
        missing_jobs(options),
        lambda job: measured(job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(results_in(options.results)))


def _options(words: Sequence[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("runs/multi30k-en-de"))
    parser.add_argument("--text", type=Path, default=Path("data/multi30k"), help="the old test set")
    parser.add_argument("--new", type=Path, default=Path("data/tatoeba"), help="the new text")
    parser.add_argument("--data", type=Path, default=Path("data/tatoeba-en-de"), help="prepared")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", nargs="+", help="names of some rows")
    parser.add_argument("--rates", nargs="+", type=float, default=RATES)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--set", nargs="+", default=[], help="settings for all rows")
    add_options(parser, "adapters", runs="runs/adapters", seeds=1)
    parser.add_argument("--write", action="store_true", help="write the table; measure nothing")
    return parser.parse_args(words)


def prepare(options: Any) -> None:
    """Cut the new text as the model knows it; half of what is held out lies beside the data."""
    options.data.parent.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        lines = read_lines(options.new / f"valid.{language}")
        half = len(lines) // 2
        for part, own in (("valid", lines[:half]), ("test", lines[half:])):
            text = "".join(line + "\n" for line in own)
            _held_out(options, part, language).write_text(text, encoding="utf-8")
    sides = {"source": LANGUAGES[0], "target": LANGUAGES[1]}
    words = []
    for side, language in sides.items():
        words += [f"--{side}", str(options.new / f"train.{language}.gz")]
        words += [f"--valid-{side}", str(_held_out(options, "valid", language))]
        words += [f"--{side}-lang", language]
    regard("prepare", *words, "--tokenizer-from", str(options.model), "--out", str(options.data))


def _held_out(options: Any, part: str, language: str) -> Path:
    data: Path = options.data
    return data.with_name(f"{data.name}.{part}.{language}")


def missing_jobs(options: Any) -> list[Job]:
    """Those without a result; the origin once."""
    rows = [row for row in ROWS if row.name in (options.rows or [row.name])]
    jobs = [Job(ORIGIN, 0.0, 1)] if ORIGIN in rows else []
    jobs += [
        Job(row, rate, seed)
        for seed in options.seeds
        for rate in options.rates
        for row in rows
        if row != ORIGIN
    ]
    done = results_in(options.results)
    return [job for job in jobs if not any(job.identity.items() <= one.items() for one in done)]


def measured(job: Job, options: Any) -> Tree:
    """Train, and translate text of both domains."""
    device = device_named(options.device).type
    found: Tree = {"device": device, "side by side": options.parallel}
    out: Path = options.model
    if job.row != ORIGIN:
        out = options.runs / f"{job.row.name}-{job.rate:g}-{job.seed}"
        _train(job, out, device, options)
        losses = [row["valid_loss"] for row in read_metrics(out) if "valid_loss" in row]
        found |= {"loss": min(losses), "steps": options.steps, "seconds": seconds_of(out)}
    where = "--lowercase", "--engine", "torch", "--device", device
    old = (str(options.text / f"test_2016_flickr.{language}") for language in LANGUAGES)
    new = (str(_held_out(options, "test", language)) for language in LANGUAGES)
    found |= {"old": bleu(out, *old, *where), "new": bleu(out, *new, *where)}
    stored = {"numbers": parameters_of(out), "bytes": (out / WEIGHTS).stat().st_size}
    return {**job.identity, **found, **stored}


def _train(job: Job, out: Path, device: str, options: Any) -> None:
    rate, seed = f"training.learning_rate={job.rate}", f"training.seed={job.seed}"
    own = rate, seed, f"training.max_steps={options.steps}"
    words = settings(*METHOD, *job.row.settings, *own, *options.set)
    folders = ["--from", str(options.model), "--data", str(options.data), "--out", str(out)]
    regard("train", *folders, "--device", device, *words)


def table(results: Sequence[Tree], language: int = 0) -> str:
    """A line for each row, at the rate that validates best."""
    lines = [HEADS[language], "|---" * 6 + "|"]
    for row in ROWS:
        own = [one for one in results if one["row"] == row.name]
        if own:
            lines.append(_line(row.titles[language], best_rate(own)))
    return "\n".join(lines)


def best_rate(results: Sequence[Tree]) -> list[Tree]:
    """Those of the rate with the lowest mean validation loss."""
    by_rate: dict[float, list[Tree]] = {}
    for one in results:
        by_rate.setdefault(one["rate"], []).append(one)
    return min(by_rate.values(), key=lambda own: statistics.mean(one.get("loss", 0) for one in own))


def _line(title: str, own: Sequence[Tree]) -> str:
    rate = f"{own[0]['rate']:g}" if own[0]["rate"] else ""
    figures = (_mean_and_spread([one[name] for one in own]) for name in ("new", "old"))
    stored = f"{own[0]['numbers']:,}", f"{own[0]['bytes'] / 2**20:.2f} MB"
    return f"| {title} | " + " | ".join([rate, *figures, *stored]) + " |"


def _mean_and_spread(figures: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(figures):.2f}" if len(figures) > 1 else ""
    return f"{statistics.mean(figures):.2f}{spread}"


if __name__ == "__main__":
    main()

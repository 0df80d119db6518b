"""What the paper's mask of non-autoregressive self-attention is worth: with and without it.

    python benchmarks/parallel_ablations.py --distilled data/multi30k-en-de-distilled \
        --teacher runs/multi30k-en-de --source val.en --reference val.de --parallel 8

Each row is a recipe with one setting changed, trained with every seed on the same distilled data
and measured on the validation set (lower-cased BLEU), alone and with ten candidates that the
teacher ranks. Results are kept one by one in a JSON file, so the same command continues where it
stopped; `--write` puts the table into docs/parallel.md and trains nothing.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages import fill
from side_by_side import (
    Tree,
    add_options,
    all_seeds,
    bleu,
    regard,
    results_in,
    seconds_of,
    settings,
)

PAGES = [Path("docs/parallel.md"), Path("docs/zh/parallel.md")]


@dataclass(frozen=True)
class Row:
    """A recipe and the mask of its decoder self-attention."""

    recipe: str
    mask: str

    @property
    def name(self) -> str:
        """For folders and results."""
        return f"{self.recipe}-{self.mask}"


ROWS = [
    Row(recipe, mask)
    for recipe in ("multi30k-parallel", "multi30k-ctc")
    for mask in ("none", "diagonal")
]


def main() -> None:
    """Train what is missing, or write the table."""
    options = _options()
    results = results_in(options.results)
    if options.write:
        for page in PAGES:
            fill(page, "ablations", _table(results))
        return
    all_seeds(ROWS, _measured, options)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--distilled", default="data/multi30k-en-de-distilled")
    parser.add_argument("--teacher", default="runs/multi30k-en-de", help="ranks candidates")
    parser.add_argument("--source", default="val.en", help="the validation set")
    parser.add_argument("--reference", default="val.de", help="its translation")
    parser.add_argument("--set", nargs="+", default=[], help="settings of every training")
    add_options(parser, "parallel-ablations", runs="runs/parallel-ablations", seeds=2)
    parser.add_argument("--write", action="store_true", help="write the table, train nothing")
    return parser.parse_args()


def _measured(row: Row, seed: int, options: Any) -> Tree:
    """Train a row with a seed, and translate the validation set in two ways."""
    out = options.runs / f"{row.name}-{seed}"
    assignments = (
        f"training.seed={seed}",
        f"model.self_attention_mask={row.mask}",
        "training.tensorboard=false",
        *options.set,
    )
    words = ["--data", options.distilled, "--out", str(out), *settings(*assignments)]
    regard("train", f"recipes/{row.recipe}.toml", *words)
    test = options.source, options.reference, "--lowercase"
    ranked = ("--candidates", "10", "--teacher", options.teacher)
    result = {
        "row": row.name,
        "seed": seed,
        "alone": bleu(out, *test),
        "ranked": bleu(out, *test, *ranked),
        "seconds": seconds_of(out),
    }
    shutil.rmtree(out / "checkpoints")
    return result


def _table(results: list[Tree]) -> str:
    lines = [
        "| recipe | `model.self_attention_mask` | BLEU alone | spread | 10 candidates | spread "
        "| seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        own = [result for result in results if result["row"] == row.name]
        if own:
            cells = [f"`{row.recipe}`", f"`{row.mask}`", *_figures(own, "alone")]
            cells += [*_figures(own, "ranked"), str(len(own))]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(results: list[Tree], name: str) -> list[str]:
    """Mean and standard deviation over seeds."""
    values = [result[name] for result in results]
    spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return [f"{statistics.mean(values):.2f}", spread]


if __name__ == "__main__":
    main()

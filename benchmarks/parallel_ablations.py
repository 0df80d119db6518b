"""Ablation of the diagonal mask in non-autoregressive decoder self-attention.

    python benchmarks/parallel_ablations.py --distilled data/multi30k-en-de-distilled \
        --teacher runs/multi30k-en-de --source val.en --reference val.de --parallel 8

Each row is a recipe with one changed setting, trained with every seed on the same distilled data
and evaluated on the validation set (lowercased BLEU), alone and with ten candidates that the
teacher reranks. Each result is stored at once in a JSON file, so the same command resumes after an
interruption; `--write` only writes the table into docs/concepts/non-autoregressive.md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pages import fill
from runner import (
    Tree,
    add_options,
    evaluate_bleu,
    read_results,
    run_all_seeds,
    run_regard,
    setting_options,
    training_seconds,
)

PAGES = [Path("docs/concepts/non-autoregressive.md"), Path("docs/zh/non-autoregressive.md")]


@dataclass(frozen=True)
class Row:
    """A recipe and the mask of its decoder self-attention."""

    recipe: str
    mask: str

    @property
    def name(self) -> str:
        """The name in folders and results."""
        return f"{self.recipe}-{self.mask}"


ROWS = [
    Row(recipe, mask)
    for recipe in ("multi30k-parallel", "multi30k-ctc")
    for mask in ("none", "diagonal")
]


def main() -> None:
    """Train the missing rows, or write the table."""
    options = _options()
    results = read_results(options.results)
    if options.write:
        for page in PAGES:
            fill(page, "ablations", _table(results))
        return
    run_all_seeds(ROWS, _run_job, options)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--distilled", default="data/multi30k-en-de-distilled")
    parser.add_argument(
        "--teacher", default="runs/multi30k-en-de", help="model that reranks candidates"
    )
    parser.add_argument("--source", default="val.en", help="source of the validation set")
    parser.add_argument("--reference", default="val.de", help="target of the validation set")
    parser.add_argument("--set", nargs="+", default=[], help="settings of all runs")
    add_options(parser, "parallel-ablations", runs="runs/parallel-ablations", seeds=2)
    parser.add_argument("--write", action="store_true", help="only write the table")
    return parser.parse_args()


def _run_job(row: Row, seed: int, options: Any) -> Tree:
    """Train a row with a seed, and evaluate it alone and with reranking."""
    out = options.runs / f"{row.name}-{seed}"
    assignments = (
        f"training.seed={seed}",
        f"model.self_attention_mask={row.mask}",
        "training.tensorboard=false",
        *options.set,
    )
    arguments = ["--data", options.distilled, "--out", str(out), *setting_options(*assignments)]
    run_regard("train", f"recipes/{row.recipe}.toml", *arguments)
    test_options = options.source, options.reference, "--lowercase"
    ranked = ("--candidates", "10", "--teacher", options.teacher)
    result = {
        "row": row.name,
        "seed": seed,
        "alone": evaluate_bleu(out, *test_options),
        "ranked": evaluate_bleu(out, *test_options, *ranked),
        "seconds": training_seconds(out),
    }
    shutil.rmtree(out / "checkpoints")
    return result


def _table(results: list[Tree]) -> str:
    lines = [
        "| recipe | `model.self_attention_mask` | BLEU | std | BLEU, 10 candidates | std | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        row_results = [result for result in results if result["row"] == row.name]
        if row_results:
            cells = [f"`{row.recipe}`", f"`{row.mask}`", *_figures(row_results, "alone")]
            cells += [*_figures(row_results, "ranked"), str(len(row_results))]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _figures(results: list[Tree], name: str) -> list[str]:
    """Mean and standard deviation over seeds."""
    values = [result[name] for result in results]
    spread = f"{statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return [f"{statistics.mean(values):.2f}", spread]


if __name__ == "__main__":
    main()

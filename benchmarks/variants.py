"""Variants of attention scores, selection, positions, norms and feed-forward networks on the demo.

    regard demo            # writes the corpus
    python benchmarks/variants.py
    python benchmarks/variants.py --write       # write the table into docs/ and docs/zh/

The demo's Transformer (2 + 2 layers of width 128, 1,500 updates) in each variant, on the CPU: the
fraction of 1,000 held-out sentences that greedy search translates exactly, and the time of an
update. Each result is stored at once, so the same command resumes after an interruption.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import regard
from pages import fill
from regard.cli.demo import SETTINGS
from regard.config import build
from regard.data.demo import demo_corpus
from regard.data.store import Store
from regard.evaluation.metrics import exact_match
from regard.machine import keep_freed_memory
from regard.settings_tree import merge_trees
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.loop import train
from regard.training.metrics_log import Row, read_metrics

PAGES = [Path("docs/concepts/attention.md"), Path("docs/zh/attention.md")]
VARIANTS: dict[str, dict[str, Any]] = {
    "baseline (scaled dot, soft, sinusoidal, layer norm)": {},
    "score: dot": {"attention": {"score": "dot"}},
    "score: dot, T5 initialization": {"attention": {"score": "dot"}, "init": "t5"},
    "score: additive": {"attention": {"score": "additive"}},
    "score: bilinear": {"attention": {"score": "bilinear"}},
    "score: scaled bilinear": {"attention": {"score": "scaled_bilinear"}},
    "score: projected dot": {"attention": {"score": "projected_dot"}},
    "select: hard, straight-through": {"attention": {"select": "hard"}},
    "select: sampled, straight-through": {"attention": {"select": "sampled"}},
    "select: sampled, REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
    "positions: learned": {"positional_encoding": "learned"},
    "positions: rotary": {"positional_encoding": "rotary"},
    "positions: relative": {"positional_encoding": "relative"},
    "positions: none": {"positional_encoding": "none"},
    "norm: RMS": {"norm": "rms"},
    "norm: batch": {"norm": "batch"},
    "norm: layer, post": {"norm_order": "post"},
    "feed-forward: gated": {"ffn_type": "gated", "activation": "silu"},
    "feed-forward: convolution": {"ffn_type": "convolution"},
}
# Names in the result file, where they differ.
STORED_NAMES = {
    "baseline (scaled dot, soft, sinusoidal, layer norm)": (
        "as it is (scaled dot, soft, sinusoidal, layer norm)"
    ),
    "score: dot, T5 initialization": "score: dot, T5's beginning",
}


@dataclass(frozen=True)
class Result:
    """One variant."""

    variant: str
    exact: float
    valid_loss: float
    milliseconds: float  # median of an update


class Quiet:
    """A callback that does nothing."""

    def on_train_begin(self, step: int, max_steps: int, description: str) -> None:
        """The run starts."""

    def on_step_end(self, step: int) -> None:
        """An update is done."""

    def on_log(self, row: Row) -> None:
        """A row of metrics was written."""


def main() -> None:
    """Run the missing measurements, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/demo/prepared"))
    parser.add_argument("--runs", type=Path, default=Path("runs/variants"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/forms.json"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="only write the table")
    options = parser.parse_args()
    results = _read_results(options.results)
    if options.write:
        for page in PAGES:
            fill(page, "variants", _table(results))
        return
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    for variant, changes in VARIANTS.items():
        if variant not in {result.variant for result in results}:
            results.append(_measure(variant, changes, options))
            _write_results(options.results, results)
            print(results[-1], flush=True)


def _measure(variant: str, changes: dict[str, Any], options: Any) -> Result:
    out = options.runs / variant.replace(" ", "_").replace(":", "").replace(",", "")
    overrides = {"out": str(out), "data": {"folder": str(options.data)}, "model": changes}
    config = build(RunConfig, merge_trees(SETTINGS, overrides))
    train(config, Store(options.data), task_of(config.model), torch.device("cpu"), callback=Quiet())
    heldout = demo_corpus("en-fr").heldout
    translations = regard.load(out, device="cpu").translate([s for s, _ in heldout], beam_size=1)
    rows = read_metrics(out)
    return Result(
        variant,
        exact_match([t.text for t in translations], [target for _, target in heldout]),
        min(row["valid_loss"] for row in rows if "valid_loss" in row),
        _milliseconds([row for row in rows if "loss" in row]),
    )


def _milliseconds(rows: list[Row]) -> float:
    """The median over the rows, which is robust against other load."""
    updates = [
        1000 * (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in itertools.pairwise(rows)
    ]
    return statistics.median(updates)


def _read_results(path: Path) -> list[Result]:
    if not path.is_file():
        return []
    current = {stored: name for name, stored in STORED_NAMES.items()}
    trees = json.loads(path.read_text())["results"]
    names = [tree.pop("form") for tree in trees]
    return [
        Result(current.get(name, name), **tree) for name, tree in zip(names, trees, strict=True)
    ]


def _to_tree(result: Result) -> dict[str, Any]:
    """A result under the field names of the file."""
    figures = asdict(result)
    name = figures.pop("variant")
    return {"form": STORED_NAMES.get(name, name), **figures}


def _write_results(path: Path, results: list[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__}
    tree = {**about, "threads": torch.get_num_threads(), "results": [_to_tree(r) for r in results]}
    path.write_text(json.dumps(tree, indent=1) + "\n")


def _table(results: list[Result]) -> str:
    lines = [
        "| variant | exact match | validation loss | ms per update | relative to baseline |",
        "|---|---|---|---|---|",
    ]
    results = sorted(results, key=lambda result: list(VARIANTS).index(result.variant))
    first = results[0].milliseconds
    for result in results:
        time_ = f"{result.milliseconds:.0f} | {result.milliseconds / first:.2f}"
        lines.append(
            f"| {result.variant} | {result.exact:.1%} | {result.valid_loss:.3f} | {time_} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

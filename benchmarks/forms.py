"""What each score, selection, position, norm and feed-forward network is worth on the demo.

    regard demo            # writes the corpus
    python benchmarks/forms.py
    python benchmarks/forms.py --write      # the table, into docs/attention.md and docs/zh/

The demo's Transformer (2 + 2 layers of width 128, 1,500 updates) in one form after the other, on
the CPU: how many of 1,000 held-out sentences it gets exactly right, greedily, and the time of an
update. Results are kept one by one, so the same command goes on where it stopped.
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
from regard.config import build, merged
from regard.data.demo import demo_corpus
from regard.data.store import Store
from regard.devices import keep_freed_memory
from regard.evaluation.metrics import exact_matches
from regard.tasks import task_of
from regard.training.config import RunConfig
from regard.training.loop import train
from regard.training.metrics_log import Row, read_metrics

PAGES = [Path("docs/attention.md"), Path("docs/zh/attention.md")]
FORMS: dict[str, dict[str, Any]] = {
    "as it is (scaled dot, soft, sinusoidal, layer norm)": {},
    "score: dot": {"attention": {"score": "dot"}},
    "score: dot, T5's beginning": {"attention": {"score": "dot"}, "init": "t5"},
    "score: additive": {"attention": {"score": "additive"}},
    "score: bilinear": {"attention": {"score": "bilinear"}},
    "score: scaled bilinear": {"attention": {"score": "scaled_bilinear"}},
    "score: projected dot": {"attention": {"score": "projected_dot"}},
    "select: hard, straight-through": {"attention": {"select": "hard"}},
    "select: sampled, straight-through": {"attention": {"select": "sampled"}},
    "select: sampled, REINFORCE": {"attention": {"select": "sampled", "estimator": "reinforce"}},
    "positions: learned": {"positions": "learned"},
    "positions: rotary": {"positions": "rotary"},
    "positions: relative": {"positions": "relative"},
    "positions: none": {"positions": "none"},
    "norm: RMS": {"norm": "rms"},
    "norm: batch": {"norm": "batch"},
    "norm: layer, post": {"norm_order": "post"},
    "feed-forward: gated": {"feedforward": "gated", "activation": "silu"},
    "feed-forward: convolution": {"feedforward": "convolution"},
}


@dataclass(frozen=True)
class Result:
    """One form."""

    form: str
    exact: float
    valid_loss: float
    milliseconds: float  # the median update


class Quiet:
    """A watcher that only keeps the rows."""

    def begin(self, step: int, max_steps: int, about: str) -> None:
        """The run starts."""

    def step(self, step: int) -> None:
        """An update is done."""

    def row(self, row: Row) -> None:
        """A row of metrics was written."""


def main() -> None:
    """Measure what is missing, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/demo/prepared"))
    parser.add_argument("--runs", type=Path, default=Path("runs/forms"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/forms.json"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table, train nothing")
    options = parser.parse_args()
    results = _read(options.results)
    if options.write:
        for page in PAGES:
            fill(page, "forms", _table(results))
        return
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    for form, changes in FORMS.items():
        if form not in {result.form for result in results}:
            results.append(_measured(form, changes, options))
            _keep(options.results, results)
            print(results[-1], flush=True)


def _measured(form: str, changes: dict[str, Any], options: Any) -> Result:
    out = options.runs / form.replace(" ", "_").replace(":", "").replace(",", "")
    places = {"out": str(out), "data": {"folder": str(options.data)}, "model": changes}
    config = build(RunConfig, merged(SETTINGS, places))
    train(config, Store(options.data), task_of(config.model), torch.device("cpu"), watcher=Quiet())
    heldout = demo_corpus("en-fr").heldout
    found = regard.load(out, device="cpu").translate([s for s, _ in heldout], beam_size=1)
    rows = read_metrics(out)
    return Result(
        form,
        exact_matches([t.text for t in found], [target for _, target in heldout]),
        min(row["valid_loss"] for row in rows if "valid_loss" in row),
        _milliseconds([row for row in rows if "loss" in row]),
    )


def _milliseconds(rows: list[Row]) -> float:
    """The median over the rows, so that what else the machine did counts little."""
    updates = [
        1000 * (after["seconds"] - before["seconds"]) / (after["step"] - before["step"])
        for before, after in itertools.pairwise(rows)
    ]
    return statistics.median(updates)


def _read(path: Path) -> list[Result]:
    if not path.is_file():
        return []
    return [Result(**result) for result in json.loads(path.read_text())["results"]]


def _keep(path: Path, results: list[Result]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"date": time.strftime("%Y-%m-%d"), "torch": torch.__version__}
    tree = {**about, "threads": torch.get_num_threads(), "results": [asdict(r) for r in results]}
    path.write_text(json.dumps(tree, indent=1) + "\n")


def _table(results: list[Result]) -> str:
    lines = [
        "| form | exactly right | validation loss | ms an update | times the first |",
        "|---|---|---|---|---|",
    ]
    results = sorted(results, key=lambda result: list(FORMS).index(result.form))
    first = results[0].milliseconds
    for result in results:
        time_ = f"{result.milliseconds:.0f} | {result.milliseconds / first:.2f}"
        lines.append(f"| {result.form} | {result.exact:.1%} | {result.valid_loss:.3f} | {time_} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

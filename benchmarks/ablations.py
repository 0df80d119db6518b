"""What each part of the Multi30k recipe is worth, in the manner of Table 3 of the paper.

    python benchmarks/ablations.py --data data/multi30k-en-de \
        --source val.en --reference val.de --parallel 8

Each row is the recipe with one thing changed, trained with every seed and measured on the
validation set: beam 5, lower-cased BLEU. Results are kept one by one in a JSON file, so the same
command goes on where it stopped; `--write` puts the table of what is there into
docs/ablations.md and trains nothing.
"""

from __future__ import annotations

import argparse
import json
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
    parameters_of,
    regard,
    results_in,
    seconds_of,
    settings,
)

RECIPE = Path("recipes/multi30k-en-de.toml")
PAGE = Path("docs/ablations.md")


@dataclass(frozen=True)
class Row:
    """The recipe with one thing changed."""

    part: str
    change: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For folders and results."""
        return f"{self.part}: {self.change}"


ROWS = [
    Row("recipe", "as it is"),
    Row("heads", "1", ("model.heads=1",)),
    Row("heads", "8", ("model.heads=8",)),
    Row("heads", "16", ("model.heads=16",)),
    Row("key size", "16", ("model.key_width=16",)),
    Row("key size", "8", ("model.key_width=8",)),
    Row("width", "64", ("model.width=64", "model.feedforward_width=256")),
    Row("width", "192", ("model.width=192", "model.feedforward_width=768")),
    Row("depth", "2 + 2", ("model.encoder_layers=2", "model.decoder_layers=2")),
    Row("depth", "6 + 6", ("model.encoder_layers=6", "model.decoder_layers=6")),
    Row("feed-forward", "256", ("model.feedforward_width=256",)),
    Row("feed-forward", "1,024", ("model.feedforward_width=1024",)),
    Row("dropout", "0, without R-Drop", ("model.dropout=0", "training.r_drop=0")),
    Row("dropout", "0.2", ("model.dropout=0.2",)),
    Row("dropout", "0.3", ("model.dropout=0.3",)),
    Row("word dropout", "0.1", ("model.word_dropout=0.1",)),
    Row("label smoothing", "0", ("training.label_smoothing=0",)),
    Row("label smoothing", "0.2", ("training.label_smoothing=0.2",)),
    Row("positions", "learned", ("model.positions=learned", "model.max_positions=256")),
    Row("norm", "post", ("model.norm_order=post",)),
    Row(
        "norm",
        "post, a quarter of the rate",
        ("model.norm_order=post", "training.learning_rate=1e-3"),
    ),
    Row("R-Drop", "off", ("training.r_drop=0",)),
    Row("R-Drop", "off, dropout 0.3", ("training.r_drop=0", "model.dropout=0.3")),
    Row("subword sampling", "off", ("data.sampling_candidates=1",)),
    Row(
        "R-Drop and sampling",
        "off, dropout 0.3",
        ("training.r_drop=0", "data.sampling_candidates=1", "model.dropout=0.3"),
    ),
    Row("averaging", "none: the best checkpoint", ("training.average_last=1",)),
    Row("averaging", "moving, 0.999", ("training.average_last=1", "training.ema_decay=0.999")),
]
# Tried on the models of the first row; nothing is trained for them.
SEARCHES: dict[str, list[str]] = {
    "beam size: 1": ["--beam-size", "1"],
    "beam size: 2": ["--beam-size", "2"],
    "beam size: 10": ["--beam-size", "10"],
    "beam size: 20": ["--beam-size", "20"],
    "length penalty: 0": ["--length-penalty", "0"],
    "length penalty: 0.6": ["--length-penalty", "0.6"],
    "length penalty: 1.4": ["--length-penalty", "1.4"],
}


def main() -> None:
    """Train what is missing, or write the table."""
    options = _options()
    results = results_in(options.results)
    if options.write:
        fill(PAGE, "table", _table(results))
        return
    all_seeds(ROWS, _measured, options)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default="data/multi30k-en-de", help="the prepared folder")
    parser.add_argument("--source", default="val.en", help="the validation set")
    parser.add_argument("--reference", default="val.de", help="its translation")
    add_options(parser, "ablations", runs="runs/ablations", seeds=2)
    parser.add_argument("--steps", type=int, default=4000, help="updates of each run")
    parser.add_argument("--write", action="store_true", help="write the table, train nothing")
    return parser.parse_args()


def _measured(row: Row, seed: int, options: Any) -> Tree:
    """Train a row with a seed, and translate the validation set."""
    out = options.runs / f"{row.name}-{seed}".replace(" ", "_").replace(":", "")
    fixed = (f"training.seed={seed}", f"training.max_steps={options.steps}")
    quiet = ("training.tensorboard=false", "training.validate_bleu=false")
    words = settings(*fixed, *quiet, *row.settings)
    regard("train", str(RECIPE), "--data", options.data, "--out", str(out), *words)
    files = options.source, options.reference
    searches = SEARCHES if row == ROWS[0] else {}
    result = {
        "row": row.name,
        "seed": seed,
        "bleu": bleu(out, *files, "--lowercase"),
        "loss": _validation_loss(out),
        "parameters": parameters_of(out),
        "seconds": seconds_of(out),
        "searches": {
            name: bleu(out, *files, "--lowercase", *search) for name, search in searches.items()
        },
    }
    shutil.rmtree(out / "checkpoints")  # hundreds of models would fill a disk
    return result


def _validation_loss(run: Path) -> float:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return min(row["valid_loss"] for row in rows if "valid_loss" in row)


def _table(results: list[Tree]) -> str:
    lines = [
        "| part | change | parameters | BLEU | spread | worth | validation loss | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = statistics.mean(one["bleu"] for one in results if one["row"] == ROWS[0].name)
    for row in ROWS:
        own = [one for one in results if one["row"] == row.name]
        if own:
            bleus, losses = [one["bleu"] for one in own], [one["loss"] for one in own]
            size = f"{own[0]['parameters'] / 1e6:.2f}M"
            loss = f"{statistics.mean(losses):.3f}"
            lines.append(_line(row.part, row.change, size, bleus, base, loss))
    recipes = [one for one in results if one["row"] == ROWS[0].name]
    for name in SEARCHES:
        part, change = name.split(": ")
        bleus = [one["searches"][name] for one in recipes if name in one["searches"]]
        if bleus:
            lines.append(_line(part, change, "", bleus, base, ""))
    return "\n".join(lines)


def _line(part: str, change: str, size: str, bleus: list[float], base: float, loss: str) -> str:
    mean = statistics.mean(bleus)
    spread = f"{statistics.stdev(bleus):.2f}" if len(bleus) > 1 else ""
    cells = [
        part,
        change,
        size,
        f"{mean:.2f}",
        spread,
        f"{mean - base:+.2f}",
        loss,
        str(len(bleus)),
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()

"""Ablations of the Multi30k recipe, as in Table 3 of the Transformer paper.

    python benchmarks/ablations.py --data data/multi30k-en-de \
        --source val.en --reference val.de --parallel 8

Each row is the recipe with one change, trained with every seed and evaluated on the validation
set: beam 5, lowercased BLEU. Each result is stored at once in a JSON file, so the same command
resumes after an interruption; `--write` only writes the table into docs/results/ablations.md.
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
from runner import (
    Tree,
    add_options,
    count_parameters,
    evaluate_bleu,
    read_results,
    run_all_seeds,
    run_regard,
    setting_options,
    training_seconds,
)

RECIPE = Path("recipes/multi30k-en-de.toml")
PAGE = Path("docs/results/ablations.md")


@dataclass(frozen=True)
class Row:
    """The recipe with one change."""

    part: str
    change: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in folders and results."""
        return f"{self.part}: {self.change}"


ROWS = [
    Row("recipe", "as it is"),
    Row("heads", "1", ("model.num_heads=1",)),
    Row("heads", "8", ("model.num_heads=8",)),
    Row("heads", "16", ("model.num_heads=16",)),
    Row("key size", "16", ("model.key_dim=16",)),
    Row("key size", "8", ("model.key_dim=8",)),
    Row("width", "64", ("model.d_model=64", "model.ffn_dim=256")),
    Row("width", "192", ("model.d_model=192", "model.ffn_dim=768")),
    Row("depth", "2 + 2", ("model.num_encoder_layers=2", "model.num_decoder_layers=2")),
    Row("depth", "6 + 6", ("model.num_encoder_layers=6", "model.num_decoder_layers=6")),
    Row("feed-forward", "256", ("model.ffn_dim=256",)),
    Row("feed-forward", "1,024", ("model.ffn_dim=1024",)),
    Row("dropout", "0, without R-Drop", ("model.dropout=0", "training.r_drop=0")),
    Row("dropout", "0.2", ("model.dropout=0.2",)),
    Row("dropout", "0.3", ("model.dropout=0.3",)),
    Row("word dropout", "0.1", ("model.word_dropout=0.1",)),
    Row("label smoothing", "0", ("training.label_smoothing=0",)),
    Row("label smoothing", "0.2", ("training.label_smoothing=0.2",)),
    Row("positions", "learned", ("model.positional_encoding=learned", "model.max_positions=256")),
    Row("norm", "post", ("model.norm_order=post",)),
    Row(
        "norm",
        "post, a quarter of the rate",
        ("model.norm_order=post", "training.learning_rate=1e-3"),
    ),
    Row("R-Drop", "off", ("training.r_drop=0",)),
    Row("R-Drop", "off, dropout 0.3", ("training.r_drop=0", "model.dropout=0.3")),
    Row("subword sampling", "off", ("data.subword_nbest_size=1",)),
    Row(
        "R-Drop and sampling",
        "off, dropout 0.3",
        ("training.r_drop=0", "data.subword_nbest_size=1", "model.dropout=0.3"),
    ),
    Row("averaging", "none: the best checkpoint", ("training.average_last=1",)),
    Row("averaging", "moving, 0.999", ("training.average_last=1", "training.ema_decay=0.999")),
]
# Searches with the models of the first row.
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
    """Train the missing rows, or write the table."""
    options = _options()
    results = read_results(options.results)
    if options.write:
        fill(PAGE, "table", _table(results))
        return
    run_all_seeds(ROWS, _run_job, options)


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", default="data/multi30k-en-de", help="prepared folder")
    parser.add_argument("--source", default="val.en", help="source of the validation set")
    parser.add_argument("--reference", default="val.de", help="target of the validation set")
    add_options(parser, "ablations", runs="runs/ablations", seeds=2)
    parser.add_argument("--steps", type=int, default=4000, help="updates per run")
    parser.add_argument("--write", action="store_true", help="only write the table")
    return parser.parse_args()


def _run_job(row: Row, seed: int, options: Any) -> Tree:
    """Train a row with a seed, and evaluate on the validation set."""
    out = options.runs / f"{row.name}-{seed}".replace(" ", "_").replace(":", "")
    fixed = (f"training.seed={seed}", f"training.max_steps={options.steps}")
    quiet = ("training.tensorboard=false", "training.validate_bleu=false")
    arguments = setting_options(*fixed, *quiet, *row.settings)
    run_regard("train", str(RECIPE), "--data", options.data, "--out", str(out), *arguments)
    files = options.source, options.reference
    searches = SEARCHES if row == ROWS[0] else {}
    result = {
        "row": row.name,
        "seed": seed,
        "bleu": evaluate_bleu(out, *files, "--lowercase"),
        "loss": _validation_loss(out),
        "parameters": count_parameters(out),
        "seconds": training_seconds(out),
        "searches": {
            name: evaluate_bleu(out, *files, "--lowercase", *search)
            for name, search in searches.items()
        },
    }
    shutil.rmtree(out / "checkpoints")  # to save disk space
    return result


def _validation_loss(run: Path) -> float:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return min(row["valid_loss"] for row in rows if "valid_loss" in row)


def _table(results: list[Tree]) -> str:
    lines = [
        "| part | change | parameters | BLEU | std | difference | validation loss | seeds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    base = statistics.mean(result["bleu"] for result in results if result["row"] == ROWS[0].name)
    for row in ROWS:
        row_results = [result for result in results if result["row"] == row.name]
        if row_results:
            bleus, losses = (
                [result["bleu"] for result in row_results],
                [result["loss"] for result in row_results],
            )
            size = f"{row_results[0]['parameters'] / 1e6:.2f}M"
            loss = f"{statistics.mean(losses):.3f}"
            change = "unchanged" if row == ROWS[0] else row.change
            lines.append(_line(row.part, change, size, bleus, base, loss))
    recipe_results = [result for result in results if result["row"] == ROWS[0].name]
    for name in SEARCHES:
        part, change = name.split(": ")
        bleus = [
            result["searches"][name] for result in recipe_results if name in result["searches"]
        ]
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

"""How a training step grows: its time and memory against the length of sentences, and the width.

    python benchmarks/growth.py                  # measure here; the GPU where there is one
    python benchmarks/growth.py --write          # the tables and the pictures, into docs/

A step always holds the same number of tokens, so what does not look across them should take the
same time and memory at every length, and attention alone should grow, with the length itself.
Each point is measured in a process of its own, whose memory is nobody else's.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import machine
from curves import Point, alone, draw, table
from memory import forget_peak, peak_memory
from pages import fill
from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.devices import device_named, keep_freed_memory
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import RunConfig
from regard.training.engine import Engine
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater

LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512, 1024]
WIDTH, LENGTH = 256, 32  # of the other series
WORDS, LAYERS = 8000, 2
PAGE = Path("docs/benchmarks.md")


def main() -> None:
    """Measure what was asked for, or write what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, help="of a step; a multiple of 4,096")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--one", type=int, nargs=2, metavar=("LENGTH", "WIDTH"))
    parser.add_argument("--write", action="store_true", help="the page; measure nothing")
    options = parser.parse_args()
    if options.write:
        for kept in sorted(Path("benchmarks/results").glob("growth-*.json")):
            write(json.loads(kept.read_text()), kept.stem)
        return
    device = device_named(options.device)
    tokens = options.tokens or (16384 if device.type == "cuda" else 4096)
    if options.one:
        length, width = options.one
        print(json.dumps(measured(length, width, device, tokens)))
        return
    points = [point(length, WIDTH, device, tokens) for length in LENGTHS]
    points += [point(LENGTH, width, device, tokens) for width in WIDTHS]
    about = {**machine.described(device.type), "torch": torch.__version__, "tokens": tokens}
    kept = options.results or Path(f"benchmarks/results/growth-{device.type}.json")
    kept.write_text(json.dumps({**about, "points": points}, indent=1) + "\n")


def point(length: int, width: int, device: torch.device, tokens: int) -> Point:
    """One measurement; on a CPU by a process that is started for it."""
    if device.type == "cuda":
        forget_peak()
        return measured(length, width, device, tokens)
    asked = ["--one", str(length), str(width), "--device", device.type, "--tokens", str(tokens)]
    return alone(__file__, asked)


def measured(length: int, width: int, device: torch.device, tokens: int) -> Point:
    """Milliseconds of a step, and the megabytes that it needs beside the model."""
    keep_freed_memory()
    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        width=width,
        heads=max(1, width // 64),
        feedforward_width=4 * width,
    )
    model = Transformer(config, Vocabulary(WORDS, WORDS)).to(device).train()
    run = RunConfig(out="nowhere", model=config)
    updater = Updater(model, make_optimizer(model, run.training), Objective(run.training))
    batch = sentences(length, tokens)
    small = sentences(4, 8)
    updater([small], step=1, rate=1e-4)  # the optimizer's memory belongs to the model
    before = peak_memory(device.type)
    times = []
    with updater.as_chosen(Engine.chosen(run, device), tokens):
        for step in range(2, 9):
            _wait(device)
            begin = time.perf_counter()
            updater([batch], step=step, rate=1e-4)
            _wait(device)
            times.append(time.perf_counter() - begin)
    return {
        "length": length,
        "width": width,
        "milliseconds": 1000 * min(times[2:]),
        "megabytes": 1024 * (peak_memory(device.type) - before),
    }


def sentences(length: int, tokens: int) -> Batch:
    """Random sentences of one length, end marks included."""
    random = np.random.default_rng(0)
    rows = random.integers(4, WORDS, (2, tokens // length, length - 1))
    source, target = (with_ends(list(side)) for side in rows)
    return Batch(source, target)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def write(found: dict[str, Any], name: str) -> None:
    """A table and a picture."""
    series = {
        "length": [p for p in found["points"] if p["width"] == WIDTH][: len(LENGTHS)],
        "width": found["points"][len(LENGTHS) :],
    }
    picture = PAGE.parent / "pictures" / f"{name}.svg"
    labels = {"length": f"length (width {WIDTH})", "width": f"width (length {LENGTH})"}
    title = f"A training step of {found['tokens']:,} tokens, {found['device']}"
    draw(picture, series, title=title, labels=labels)
    about = f"{found['device']}, PyTorch {found['torch']}, {found['tokens']:,} tokens a step:"
    shown = f"![Time and memory of a step](pictures/{picture.name})"
    fill(PAGE, name, "\n".join([about, "", *table(series), "", shown]))


if __name__ == "__main__":
    main()

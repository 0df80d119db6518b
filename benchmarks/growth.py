"""Time and memory of a training step by sentence length and by model width.

    python benchmarks/growth.py                  # measure on this machine, on a GPU if available
    python benchmarks/growth.py --write          # write tables and pictures into docs/

All steps have the same number of tokens, so only attention should take more time and memory for
longer sentences. On a CPU each point is measured in a separate process, to isolate its memory.
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
from curves import Point, draw, run_isolated, table
from memory import peak_memory, reset_peak
from pages import fill
from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.devices import resolve_device
from regard.machine import keep_freed_memory
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.config import RunConfig
from regard.training.execution_plan import ExecutionPlan
from regard.training.objective import Objective
from regard.training.optimizer import make_optimizer
from regard.training.step import Updater

LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096]
WIDTHS = [64, 128, 256, 512, 1024]
WIDTH, LENGTH = 256, 32  # of the other series
VOCABULARY, LAYERS = 8000, 2
PAGE = Path("docs/results/benchmarks.md")


def main() -> None:
    """Measure, or write the results into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tokens", type=int, help="tokens per step, a multiple of 4,096")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--point", type=int, nargs=2, metavar=("LENGTH", "WIDTH"))
    parser.add_argument("--write", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.write:
        for path in sorted(Path("benchmarks/results").glob("growth-*.json")):
            write(json.loads(path.read_text()), path.stem)
        return
    device = resolve_device(options.device)
    tokens = options.tokens or (16384 if device.type == "cuda" else 4096)
    if options.point:
        length, width = options.point
        print(json.dumps(measure(length, width, device, tokens)))
        return
    points = [measure_point(length, WIDTH, device, tokens) for length in LENGTHS]
    points += [measure_point(LENGTH, width, device, tokens) for width in WIDTHS]
    about = {**machine.describe(device.type), "torch": torch.__version__, "tokens": tokens}
    path = options.results or Path(f"benchmarks/results/growth-{device.type}.json")
    path.write_text(json.dumps({**about, "points": points}, indent=1) + "\n")


def measure_point(length: int, width: int, device: torch.device, tokens: int) -> Point:
    """Measure one point; on a CPU in a separate process."""
    if device.type == "cuda":
        reset_peak()
        return measure(length, width, device, tokens)
    arguments = [
        "--point",
        str(length),
        str(width),
        "--device",
        device.type,
        "--tokens",
        str(tokens),
    ]
    return run_isolated(__file__, arguments)


def measure(length: int, width: int, device: torch.device, tokens: int) -> Point:
    """Milliseconds of a step, and its memory in megabytes without the model."""
    keep_freed_memory()
    torch.manual_seed(0)
    config = TransformerConfig(
        num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS,
        d_model=width,
        num_heads=max(1, width // 64),
        ffn_dim=4 * width,
    )
    model = Transformer(config, Vocabulary(VOCABULARY, VOCABULARY)).to(device).train()
    run = RunConfig(out="nowhere", model=config)
    updater = Updater(model, make_optimizer(model, run.training), Objective(run.training))
    batch = sentences(length, tokens)
    small = sentences(4, 8)
    updater([small], step=1, rate=1e-4)  # allocates the optimizer state
    before = peak_memory(device.type)
    times = []
    with updater.use_plan(ExecutionPlan.choose(run, device), tokens):
        for step in range(2, 9):
            _synchronize(device)
            begin = time.perf_counter()
            updater([batch], step=step, rate=1e-4)
            _synchronize(device)
            times.append(time.perf_counter() - begin)
    return {
        "length": length,
        "width": width,
        "milliseconds": 1000 * min(times[2:]),
        "megabytes": 1024 * (peak_memory(device.type) - before),
    }


def sentences(length: int, tokens: int) -> Batch:
    """Random sentences of one length, including EOS."""
    rng = np.random.default_rng(0)
    rows = rng.integers(4, VOCABULARY, (2, tokens // length, length - 1))
    source, target = (with_eos(list(side)) for side in rows)
    return Batch(source, target)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def write(results: dict[str, Any], name: str) -> None:
    """Write the table and draw the picture."""
    series = {
        "length": [p for p in results["points"] if p["width"] == WIDTH][: len(LENGTHS)],
        "width": results["points"][len(LENGTHS) :],
    }
    picture = PAGE.parents[1] / "pictures" / f"{name}.svg"
    labels = {"length": f"length (width {WIDTH})", "width": f"width (length {LENGTH})"}
    title = f"A training step of {results['tokens']:,} tokens, {results['device']}"
    draw(picture, series, title=title, labels=labels)
    about = (
        f"{results['device']}, PyTorch {results['torch']}, {results['tokens']:,} tokens per step:"
    )
    picture_link = f"![Time and memory of a step](../pictures/{picture.name})"
    fill(PAGE, name, "\n".join([about, "", *table(series), "", picture_link]))


if __name__ == "__main__":
    main()

"""Time and memory of beam search by output length, beam size and batch size.

    python benchmarks/decoding_growth.py              # measure here, on a GPU if available
    python benchmarks/decoding_growth.py --write      # write tables and pictures into docs/

The weights are random and the output length is forced. On a CPU each point is measured in a
separate process, to isolate its memory.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import machine
from curves import Point, draw, run_isolated, table
from decoders import ours
from memory import peak_memory, reset_peak
from pages import fill
from regard.devices import resolve_device
from regard.machine import keep_freed_memory
from synthetic import synthetic_task

AXES = {
    "length": [16, 32, 64, 128, 256, 512],  # of the translation
    "beam": [1, 2, 4, 8, 16],
    "batch": [1, 4, 16, 64, 256],
}
DEFAULTS = {"length": 32, "beam": 4, "batch": 16}  # while another axis varies
MODEL = {"cpu": ("tiny", 8000), "cuda": ("base", 32768)}
RESULTS = Path("benchmarks/results")
PAGE = Path("docs/results/benchmarks.md")


def main() -> None:
    """Measure, or write the results into the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--point", type=int, nargs=3, metavar=("LENGTH", "BEAM", "BATCH"))
    parser.add_argument("--write", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.write:
        for path in sorted(RESULTS.glob("decoding-growth-*.json")):
            write(json.loads(path.read_text()), path.stem)
        return
    device = resolve_device(options.device).type
    if options.point:
        length, beam, batch = options.point
        print(json.dumps(measure(length, beam, batch, device)))
        return
    series = {
        axis: [measure_point({**DEFAULTS, axis: size}, device) for size in sizes]
        for axis, sizes in AXES.items()
    }
    about = {**machine.describe(device), "torch": torch.__version__, "model": MODEL[device][0]}
    path = options.results or RESULTS / f"decoding-growth-{device}.json"
    path.write_text(json.dumps({**about, "series": series}, indent=1) + "\n")


def measure_point(shape: dict[str, int], device: str) -> Point:
    """Measure one point; on a CPU in a separate process."""
    if device == "cuda":
        reset_peak()
        return measure(**shape, device=device)
    return run_isolated(__file__, ["--point", *map(str, shape.values()), "--device", device])


def measure(length: int, beam: int, batch: int, device: str) -> Point:
    """Milliseconds of a search, and its memory in megabytes without the model."""
    keep_freed_memory()
    task = synthetic_task(
        *MODEL[device],
        device,
        beam_size=beam,
        batch_size=batch,
        batches=1,
        forced_length=length,
        use_bfloat16=device == "cuda",
    )
    search = ours.decoder(task, "torch")
    search(task.sentences[:1])
    if device == "cuda":
        reset_peak()  # loading the model needs more memory than a search
    before = peak_memory(device)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        search(task.sentences)
        times.append(time.perf_counter() - begin)
    return {
        "length": length,
        "beam": beam,
        "batch": batch,
        "milliseconds": 1000 * min(times[1:]),
        "megabytes": 1024 * (peak_memory(device) - before),
    }


def write(results: dict[str, Any], name: str) -> None:
    """Write the table and draw the picture."""
    picture = PAGE.parents[1] / "pictures" / f"{name}.svg"
    labels = {
        axis: f"{axis} ({', '.join(f'{n} {size}' for n, size in DEFAULTS.items() if n != axis)})"
        for axis in AXES
    }
    title = f"Beam search, {results['model']} model, {results['device']}"
    draw(picture, results["series"], title=title, labels=labels)
    about = f"{results['device']}, PyTorch {results['torch']}, {results['model']} model:"
    picture_link = f"![Time and memory of a search](../pictures/{picture.name})"
    fill(PAGE, name, "\n".join([about, "", *table(results["series"]), "", picture_link]))


if __name__ == "__main__":
    main()

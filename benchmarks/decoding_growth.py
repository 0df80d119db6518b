"""How our search grows: its time and memory against the length of what is written, beam and batch.

    python benchmarks/decoding_growth.py              # measure here; the GPU where there is one
    python benchmarks/decoding_growth.py --write      # the tables and the pictures, into docs/

The weights are random and the length is forced, so every step is taken. Each point is measured in
a process of its own, whose memory is nobody else's.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import machine
from curves import Point, alone, draw, table
from decoders import ours
from made_up import made_up
from memory import forget_peak, peak_memory
from pages import fill
from regard.devices import device_named, keep_freed_memory

GROWING = {
    "length": [16, 32, 64, 128, 256, 512],  # of the translation
    "beam": [1, 2, 4, 8, 16],
    "batch": [1, 4, 16, 64, 256],
}
USUAL = {"length": 32, "beam": 4, "batch": 16}  # while another one grows
MODEL = {"cpu": ("tiny", 8000), "cuda": ("base", 32768)}
RESULTS = Path("benchmarks/results")
PAGE = Path("docs/benchmarks.md")


def main() -> None:
    """Measure what was asked for, or write what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--one", type=int, nargs=3, metavar=("LENGTH", "BEAM", "BATCH"))
    parser.add_argument("--write", action="store_true", help="the page; measure nothing")
    options = parser.parse_args()
    if options.write:
        for kept in sorted(RESULTS.glob("decoding-growth-*.json")):
            write(json.loads(kept.read_text()), kept.stem)
        return
    device = device_named(options.device).type
    if options.one:
        length, beam, batch = options.one
        print(json.dumps(measured(length, beam, batch, device)))
        return
    series = {
        axis: [point({**USUAL, axis: size}, device) for size in sizes]
        for axis, sizes in GROWING.items()
    }
    about = {**machine.described(device), "torch": torch.__version__, "model": MODEL[device][0]}
    kept = options.results or RESULTS / f"decoding-growth-{device}.json"
    kept.write_text(json.dumps({**about, "series": series}, indent=1) + "\n")


def point(shape: dict[str, int], device: str) -> Point:
    """One measurement; on a CPU by a process that is started for it."""
    if device == "cuda":
        forget_peak()
        return measured(**shape, device=device)
    return alone(__file__, ["--one", *map(str, shape.values()), "--device", device])


def measured(length: int, beam: int, batch: int, device: str) -> Point:
    """Milliseconds of a search, and the megabytes that it needs beside the model."""
    keep_freed_memory()
    exercise = made_up(
        *MODEL[device],
        device,
        beam_size=beam,
        batch_size=batch,
        batches=1,
        forced=length,
        half=device == "cuda",
    )
    search = ours.decoder(exercise, "torch")
    search(exercise.sentences[:1])
    if device == "cuda":
        forget_peak()  # reading the model needs more than any search
    before = peak_memory(device)
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        search(exercise.sentences)
        times.append(time.perf_counter() - begin)
    return {
        "length": length,
        "beam": beam,
        "batch": batch,
        "milliseconds": 1000 * min(times[1:]),
        "megabytes": 1024 * (peak_memory(device) - before),
    }


def write(found: dict[str, Any], name: str) -> None:
    """A table and a picture."""
    picture = PAGE.parent / "pictures" / f"{name}.svg"
    labels = {
        axis: f"{axis} ({', '.join(f'{n} {size}' for n, size in USUAL.items() if n != axis)})"
        for axis in GROWING
    }
    title = f"A search with a {found['model']} model, {found['device']}"
    draw(picture, found["series"], title=title, labels=labels)
    about = f"{found['device']}, PyTorch {found['torch']}, the {found['model']} model:"
    shown = f"![Time and memory of a search](pictures/{picture.name})"
    fill(PAGE, name, "\n".join([about, "", *table(found["series"]), "", shown]))


if __name__ == "__main__":
    main()

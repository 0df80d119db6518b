"""Speed of training and translation of two versions of regard, as ratios.

    git worktree add build/old COMMIT
    regard prepare --source train.en --target train.de --lowercase --out data/multi30k
    python benchmarks/versions.py --old build/old/src --data data/multi30k --source val.en

Each round runs both versions in separate processes, in alternating order, so that other load on
the machine affects both. Training is that of `regard train`, including the loader; translation is
from text to text, with the model that the old version trained first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

NEW = Path(__file__).resolve().parents[1] / "src"
SIZES = {
    "tiny": ("width=128", "heads=4", "feedforward_width=256", "encoder_layers=4"),
    "base": ("width=512", "heads=8", "feedforward_width=2048"),
}
# Runs with both versions: older ones call the backend engine.
TRANSLATE = """
import inspect, sys, time
from regard.pipelines.translator import Translator
model, source, device, backend, beam, count = sys.argv[1:]
old = "engine" in inspect.signature(Translator.load).parameters
translator = Translator.load(model, device=device, **{"engine" if old else "backend": backend})
lines = open(source, encoding="utf-8").read().splitlines()[: int(count)]
seconds = []
for _ in range(4):
    begin = time.perf_counter()
    translator.translate(lines, beam_size=int(beam), scores=False)
    seconds.append(time.perf_counter() - begin)
print(len(lines) / min(seconds))
"""


def main() -> None:
    """Print the measurements of each round, and the median of the ratios new / old."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True, help="src folder of the old version")
    parser.add_argument("--data", type=Path, required=True, help="prepared folder of pairs")
    parser.add_argument("--source", type=Path, required=True, help="sentences to translate")
    parser.add_argument("--work", type=Path, default=Path("runs/versions"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["tiny"])
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--backends", nargs="*", default=["torch"])
    parser.add_argument("--beam-sizes", type=int, nargs="*", default=[1, 5])
    options = parser.parse_args()
    trees = {"old": options.old.resolve(), "new": NEW}
    results: dict[str, dict[str, list[float]]] = {}
    for number in range(options.rounds):
        for version in [*trees] if number % 2 == 0 else reversed([*trees]):
            for name, value in measure(trees[version], version, number, options).items():
                results.setdefault(name, {}).setdefault(version, []).append(value)
                print(f"{name}, {version}: {value:,.0f}", flush=True)
    for name, values in results.items():
        ratios = [new / old for old, new in zip(values["old"], values["new"], strict=True)]
        each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{name}: new / old {statistics.median(ratios):.3f} ({each})")


def measure(tree: Path, version: str, number: int, options: argparse.Namespace) -> dict[str, float]:
    """Target tokens per second of each size, and sentences per second of each search."""
    values = {}
    for size in options.sizes:
        out = options.work / f"{size}-{version}-{number}"
        values[f"training {size}"] = measure_training(tree, size, out, options)
    model = options.work / f"{options.sizes[0]}-old-0"
    for backend in options.backends:
        for beam in options.beam_sizes:
            arguments = [model, options.source, options.device, backend, beam, options.lines]
            output = run(tree, ["-c", TRANSLATE, *map(str, arguments)])
            values[f"{backend}, beam {beam}"] = float(output)
    return values


def measure_training(tree: Path, size: str, out: Path, options: argparse.Namespace) -> float:
    """The median speed in a run's metrics log."""
    settings = [
        "model.kind=transformer",
        *(f"model.{setting}" for setting in SIZES[size]),
        f"data.batch_tokens={options.batch_tokens}",
        f"training.max_steps={options.steps}",
        f"training.checkpoint_every={options.steps}",
        f"training.log_every={max(1, options.steps // 20)}",
        "training.tensorboard=false",
        "training.validate_bleu=false",
    ]
    arguments = ["--data", str(options.data), "--out", str(out), "--device", options.device]
    arguments += [word for setting in settings for word in ("--set", setting)]
    run(tree, ["-m", "regard", "train", *arguments])
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    speeds = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    return statistics.median(speeds)


def run(tree: Path, arguments: Sequence[str]) -> str:
    """The output of a program that imports regard from a tree."""
    path = os.pathsep.join([str(tree), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if process.returncode:
        sys.exit(process.stderr)
    return process.stdout


if __name__ == "__main__":
    main()

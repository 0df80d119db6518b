"""Whether other engines write what ours writes, and how fast they do.

    regard export runs/multi30k-en-de --to onnx --out runs/multi30k-onnx
    python benchmarks/engines.py runs/multi30k-en-de --onnx runs/multi30k-onnx --text test.en

Engines take turns on the same text, with the same tokenizer around them. A translation that differs
is no fault where two are about equally likely, so the largest difference of their scores is told.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from regard.decoding.engine import Engine
from regard.decoding.torch_engine import TorchEngine
from regard.decoding.translator import Translation, Translator
from regard.exchange.onnx_model import OnnxModel


def main() -> None:
    """Print a line for each engine and beam."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--onnx", type=Path, required=True, help="the same model, exported")
    parser.add_argument("--text", type=Path, required=True, help="a sentence a line")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = options.text.read_text(encoding="utf-8").splitlines()
    translator = Translator.load(options.model, device="cpu", backend="torch")
    engines: dict[str, Engine] = {
        "torch": translator.engine,
        "onnx": TorchEngine([OnnxModel(options.onnx)], torch.device("cpu")),
    }
    for beam_size in options.beam_size:
        written: dict[str, list[Translation]] = {}
        speeds: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(options.rounds):
            for name, translator.engine in engines.items():
                begin = time.monotonic()
                written[name] = translator.translate(
                    lines, beam_size=beam_size, batch_size=options.batch_size
                )
                speeds[name].append(len(lines) / (time.monotonic() - begin))
        for name in engines:
            print(f"beam {beam_size}, {name:5}", told(speeds, written, name))


def told(speeds: dict[str, list[float]], written: dict[str, list[Translation]], name: str) -> str:
    """Speed, speed beside ours round by round, and how far the translations agree."""
    ratios = [own / first for own, first in zip(speeds[name], speeds["torch"], strict=True)]
    pairs = list(zip(written["torch"], written[name], strict=True))
    equal = sum(ours.text == theirs.text for ours, theirs in pairs) / len(pairs)
    apart = max(abs(ours.score - theirs.score) for ours, theirs in pairs)
    speed, ratio = statistics.median(speeds[name]), statistics.median(ratios)
    return (
        f"{speed:7.1f} sentences/s, {ratio:.2f} times "
        f"({min(ratios):.2f} to {max(ratios):.2f}); {equal:.1%} equal, scores within {apart:.1e}"
    )


if __name__ == "__main__":
    main()

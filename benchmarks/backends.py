"""Speed of other inference backends, and agreement of their translations with PyTorch's.

    regard export runs/multi30k-en-de --to onnx --out runs/multi30k-onnx
    python benchmarks/backends.py runs/multi30k-en-de --onnx runs/multi30k-onnx --text test.en

Backends are measured in interleaved rounds on the same text, with the same tokenizer. Translations
of about equal probability may differ, so the largest difference of scores is printed as well.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from regard.backends.torch_backend import TorchBackend
from regard.decoding.backend import Backend
from regard.exchange.onnx_model import OnnxModel
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator


def main() -> None:
    """Print a line for each backend and beam size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder")
    parser.add_argument("--onnx", type=Path, required=True, help="folder of the exported model")
    parser.add_argument("--text", type=Path, required=True, help="text file, one sentence per line")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    lines = options.text.read_text(encoding="utf-8").splitlines()
    translator = Translator.load(options.model, device="cpu", backend="torch")
    backends: dict[str, Backend] = {
        "torch": translator.backend,
        "onnx": TorchBackend([OnnxModel(options.onnx)], torch.device("cpu")),
    }
    for beam_size in options.beam_size:
        translations: dict[str, list[Translation]] = {}
        speeds: dict[str, list[float]] = {name: [] for name in backends}
        for _ in range(options.rounds):
            for name, translator.backend in backends.items():
                begin = time.monotonic()
                translations[name] = translator.translate(
                    lines, beam_size=beam_size, batch_size=options.batch_size
                )
                speeds[name].append(len(lines) / (time.monotonic() - begin))
        for name in backends:
            print(f"beam {beam_size}, {name:5}", report_line(speeds, translations, name))


def report_line(
    speeds: dict[str, list[float]], translations: dict[str, list[Translation]], name: str
) -> str:
    """Speed, speed relative to PyTorch round by round, and agreement of translations."""
    ratios = [speed / first for speed, first in zip(speeds[name], speeds["torch"], strict=True)]
    pairs = list(zip(translations["torch"], translations[name], strict=True))
    equal = sum(ours.text == theirs.text for ours, theirs in pairs) / len(pairs)
    difference = max(abs(ours.score - theirs.score) for ours, theirs in pairs)
    speed, ratio = statistics.median(speeds[name]), statistics.median(ratios)
    return (
        f"{speed:7.1f} sentences/s, {ratio:.2f} times "
        f"({min(ratios):.2f} to {max(ratios):.2f}); "
        f"{equal:.1%} equal, scores within {difference:.1e}"
    )


if __name__ == "__main__":
    main()

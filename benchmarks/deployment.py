"""What a model for deployment gains and loses: models in one engine, in turns, on the same text.

    regard export runs/multi30k-en-de --to ctranslate2 --precision int8 --out runs/usual-int8
    regard export runs/multi30k-fast --to ctranslate2 --precision int8 --out runs/fast-int8
    python benchmarks/deployment.py runs/usual-int8 runs/fast-int8 --text multi30k

The first model is what the others are compared with. Loading is left out, tokenising counts; a
model's speed is that of all its rounds, the ratio is the median of the rounds' ratios. `--text` is
the folder of test_2016_flickr.en and .de; BLEU is lower-cased.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

import machine
from regard.decoding.translator import Translator
from regard.evaluation.metrics import Counting

TEST = "test_2016_flickr"


def main() -> None:
    """Print a table for each beam size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="exported folders, or any model folders")
    parser.add_argument("--text", type=Path, required=True, help="the folder of Multi30k")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    translators = {model: Translator.load(model, device="cpu") for model in options.models}
    source, reference = (
        (options.text / f"{TEST}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    print(machine.described("cpu"), *{str(one.engine) for one in translators.values()}, sep="; ")
    for beam_size in options.beam_size:
        seconds, bleu = _rounds(translators, source, reference, beam_size, options.rounds)
        _show(f"beam {beam_size}", seconds, bleu, len(source))


def _rounds(
    translators: dict[str, Translator],
    source: list[str],
    reference: list[str],
    beam_size: int,
    rounds: int,
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """The seconds of every round, and BLEU, of each model."""
    seconds: dict[str, list[float]] = {model: [] for model in translators}
    bleu = {}
    for model, translator in translators.items():  # this also wakes everybody up
        written = [found.text for found in translator.translate(source, beam_size=beam_size)]
        bleu[model] = Counting(lowercase=True).bleu().corpus_score(written, [reference]).score
    for _ in range(rounds):
        for model, translator in translators.items():
            begin = time.perf_counter()
            translator.translate(source, beam_size=beam_size)
            seconds[model].append(time.perf_counter() - begin)
    return seconds, bleu


def _show(
    name: str, seconds: dict[str, list[float]], bleu: dict[str, float], sentences: int
) -> None:
    first = next(iter(seconds.values()))
    print(f"\n| {name} | sentences/s | times as fast | from, to | BLEU |\n|---|---|---|---|---|")
    for model, own in seconds.items():
        ratios = [theirs / ours for theirs, ours in zip(first, own, strict=True)]
        print(
            f"| {Path(model).name} | {sentences * len(own) / sum(own):,.0f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} "
            f"| {bleu[model]:.2f} |"
        )


if __name__ == "__main__":
    main()

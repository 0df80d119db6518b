"""Speed and BLEU of models for deployment, in interleaved rounds on the same text.

    regard export runs/multi30k-en-de --to ctranslate2 --precision int8 --out runs/usual-int8
    regard export runs/multi30k-fast --to ctranslate2 --precision int8 --out runs/fast-int8
    python benchmarks/deployment.py runs/usual-int8 runs/fast-int8 --text multi30k
    python benchmarks/deployment.py ... --write         # and write the tables into docs/

The first model is the baseline. Each model runs in its own process: two CTranslate2 translators in
one process slow each other down. Tokenization is timed, loading is not. A model's speed is that of
all its rounds, the speedup is the median over the rounds. `--text` is the folder of
test_2016_flickr.en and .de; BLEU is lowercased.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

import machine
from pages import fill
from regard.evaluation.metrics import MetricConfig
from regard.machine import keep_freed_memory
from regard.pipelines.translator import Translator

PAGE = Path("docs/results/benchmarks.md")
TEST = "test_2016_flickr"
Models = dict[str, ProcessPoolExecutor]


def main() -> None:
    """Print a table for each beam size."""
    options = _options()
    initializer = functools.partial(_initialize, options.threads)
    models = {
        model: ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=initializer)
        for model in options.models
    }
    source, reference = (
        (options.text / f"{TEST}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    hardware = machine.describe("cpu")
    backends = sorted({_submit(models, model, backend_name) for model in models})
    about = f"{hardware['device']}, {hardware['cores']} cores; {', '.join(backends)}."
    tables = [
        _compare(models, beam, source, reference, options.rounds) for beam in options.beam_size
    ]
    report = "\n\n".join([about, *tables])
    print(report)
    if options.write:
        fill(PAGE, "deployment", report)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="exported folders, or any model folders")
    parser.add_argument("--text", type=Path, required=True, help="folder of Multi30k")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/")
    return parser.parse_args()


def _compare(
    models: Models, beam_size: int, source: list[str], reference: list[str], rounds: int
) -> str:
    """The table of all models with one beam size, measured in interleaved rounds."""
    translations = {model: _submit(models, model, translate, source, beam_size) for model in models}
    seconds: dict[str, list[float]] = {model: [] for model in models}
    for _ in range(rounds):
        for model in models:
            seconds[model].append(_submit(models, model, time_translation, source, beam_size))
    metric = MetricConfig(lowercase=True).bleu()
    bleu = {model: metric.corpus_score(translations[model], [reference]).score for model in models}
    return table(f"beam {beam_size}", seconds, bleu, len(source))


def _initialize(threads: int) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)


def _submit(models: Models, model: str, function: Any, *arguments: Any) -> Any:
    """Call a function in the model's process."""
    return models[model].submit(function, model, *arguments).result()


@functools.cache
def _translator(model: str) -> Translator:
    return Translator.load(model, device="cpu")


def backend_name(model: str) -> str:
    """The backend of a model."""
    return str(_translator(model).backend)


def translate(model: str, source: list[str], beam_size: int) -> list[str]:
    """The translations of a model; also its warm-up."""
    translations = _translator(model).translate(source, beam_size=beam_size)
    return [translation.text for translation in translations]


def time_translation(model: str, source: list[str], beam_size: int) -> float:
    """The seconds of a translation."""
    begin = time.perf_counter()
    _translator(model).translate(source, beam_size=beam_size)
    return time.perf_counter() - begin


def table(
    name: str, seconds: dict[str, list[float]], bleu: dict[str, float], sentences: int
) -> str:
    """A line for each model."""
    first = next(iter(seconds.values()))
    lines = [f"| {name} | sentences/s | speedup | range | BLEU |", "|---|---|---|---|---|"]
    for model, times in seconds.items():
        ratios = [baseline / seconds_ for baseline, seconds_ in zip(first, times, strict=True)]
        lines.append(
            f"| {Path(model).name} | {sentences * len(times) / sum(times):,.0f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} "
            f"| {bleu[model]:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

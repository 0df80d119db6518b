"""What a model for deployment gains and loses: models in one engine, in turns, on the same text.

    regard export runs/multi30k-en-de --to ctranslate2 --precision int8 --out runs/usual-int8
    regard export runs/multi30k-fast --to ctranslate2 --precision int8 --out runs/fast-int8
    python benchmarks/deployment.py runs/usual-int8 runs/fast-int8 --text multi30k
    python benchmarks/deployment.py ... --write         # and the tables into docs/benchmarks.md

The first model is what the others are compared with. Each is asked in turn in a process of its own:
in one process, two of CTranslate2's translators hold each other up. Loading is left out, tokenising
counts. A model's speed is that of all its rounds, the ratio is the median of the rounds' ratios.
`--text` is the folder of test_2016_flickr.en and .de; BLEU is lower-cased.
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
from regard.decoding.translator import Translator
from regard.devices import keep_freed_memory
from regard.evaluation.metrics import Counting

PAGE = Path("docs/benchmarks.md")
TEST = "test_2016_flickr"
Models = dict[str, ProcessPoolExecutor]


def main() -> None:
    """Print a table for each beam size."""
    options = _options()
    begun = functools.partial(_begin, options.threads)
    models = {
        model: ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=begun)
        for model in options.models
    }
    source, reference = (
        (options.text / f"{TEST}.{language}").read_text(encoding="utf-8").splitlines()
        for language in ("en", "de")
    )
    found = machine.described("cpu")
    engines = sorted({_ask(models, one, engine) for one in models})
    about = f"{found['device']}, {found['cores']} cores; {', '.join(engines)}."
    tables = [
        _contest(models, beam, source, reference, options.rounds) for beam in options.beam_size
    ]
    told = "\n\n".join([about, *tables])
    print(told)
    if options.write:
        fill(PAGE, "deployment", told)


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", help="exported folders, or any model folders")
    parser.add_argument("--text", type=Path, required=True, help="the folder of Multi30k")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[5, 1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/")
    return parser.parse_args()


def _contest(
    models: Models, beam_size: int, source: list[str], reference: list[str], rounds: int
) -> str:
    """All models in turns, with one beam size."""
    written = {one: _ask(models, one, translated, source, beam_size) for one in models}
    seconds: dict[str, list[float]] = {model: [] for model in models}
    for _ in range(rounds):
        for model in models:
            seconds[model].append(_ask(models, model, timed, source, beam_size))
    counting = Counting(lowercase=True).bleu()
    bleu = {one: counting.corpus_score(written[one], [reference]).score for one in models}
    return table(f"beam {beam_size}", seconds, bleu, len(source))


def _begin(threads: int) -> None:
    keep_freed_memory()
    torch.set_num_threads(threads)


def _ask(models: Models, model: str, question: Any, *about: Any) -> Any:
    """In the model's own process."""
    return models[model].submit(question, model, *about).result()


@functools.cache
def _translator(model: str) -> Translator:
    return Translator.load(model, device="cpu")


def engine(model: str) -> str:
    """What runs a model."""
    return str(_translator(model).engine)


def translated(model: str, source: list[str], beam_size: int) -> list[str]:
    """What it writes; this also wakes it up."""
    return [found.text for found in _translator(model).translate(source, beam_size=beam_size)]


def timed(model: str, source: list[str], beam_size: int) -> float:
    """The seconds that it needs."""
    begin = time.perf_counter()
    _translator(model).translate(source, beam_size=beam_size)
    return time.perf_counter() - begin


def table(
    name: str, seconds: dict[str, list[float]], bleu: dict[str, float], sentences: int
) -> str:
    """A line for each model."""
    first = next(iter(seconds.values()))
    lines = [f"| {name} | sentences/s | times as fast | from, to | BLEU |", "|---|---|---|---|---|"]
    for model, own in seconds.items():
        ratios = [theirs / ours for theirs, ours in zip(first, own, strict=True)]
        lines.append(
            f"| {Path(model).name} | {sentences * len(own) / sum(own):,.0f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} "
            f"| {bleu[model]:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()

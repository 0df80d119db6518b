"""Speed of search with guards, and what they change.

    python benchmarks/guards.py runs/multi30k-en-de --source test.en --reference test.de
    python benchmarks/guards.py runs/multi30k-en-de --source test.en --device cuda --beam-size 1 5

The settings are measured in interleaved rounds on the same text; ratios are to the plain search of
the same round. "doubtful" counts the translations that the checks of the retry find fault with.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from regard.evaluation.metrics import bleu
from regard.pipelines.text_search import Translation
from regard.pipelines.translator import Translator

PLAIN = "plain"
GUARDS: dict[str, dict[str, Any]] = {
    PLAIN: {"retry": False},
    "retry (default)": {},
    "no_repeat_ngram_size 3": {"retry": False, "no_repeat_ngram_size": 3},
    "repetition_penalty 1.2": {"retry": False, "repetition_penalty": 1.2},
    "min_ratio 0.5": {"retry": False, "min_ratio": 0.5},
    "2 forbidden words": {"retry": False, "forbid": ("Hund", "Frau")},
}


@dataclass
class Measured:
    """The rounds of one setting."""

    translations: Sequence[Translation] = ()
    speeds: list[float] = field(default_factory=list)  # sentences per second


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each beam size and setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="model folder")
    parser.add_argument("--source", type=Path, required=True, help="one sentence per line")
    parser.add_argument("--reference", type=Path, help="for BLEU")
    parser.add_argument("--beam-size", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    lines = _read_lines(options.source)
    references = _read_lines(options.reference) if options.reference else None
    translator = Translator.load(options.model, device=options.device, backend=options.backend)
    print(translator.backend_notice)
    for beam_size in options.beam_size:
        search = {"beam_size": beam_size, "batch_size": options.batch_size}
        measured = measure(translator, lines, search, options.rounds)
        for name in GUARDS:
            print(f"beam {beam_size}, {name:24}", report_line(measured, name, references))


def measure(
    translator: Translator, lines: Sequence[str], search: Mapping[str, Any], rounds: int
) -> dict[str, Measured]:
    """The translations and speeds with each setting, after a round that is not measured."""
    measured = {name: Measured() for name in GUARDS}
    for number in range(rounds + 1):
        for name, guards in GUARDS.items():
            begin = time.monotonic()
            measured[name].translations = translator.translate(lines, **search, **guards)
            if number:
                measured[name].speeds.append(len(lines) / (time.monotonic() - begin))
    return measured


def report_line(
    measured: Mapping[str, Measured], name: str, references: Sequence[str] | None
) -> str:
    """Speed, ratio to the plain search, equal and doubtful translations, and BLEU."""
    plain, guarded = measured[PLAIN], measured[name]
    ratios = [speed / first for speed, first in zip(guarded.speeds, plain.speeds, strict=True)]
    pairs = zip(plain.translations, guarded.translations, strict=True)
    equal = sum(first.text == second.text for first, second in pairs) / len(guarded.translations)
    parts = [
        f"{statistics.median(guarded.speeds):8.1f} sentences/s, "
        f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})",
        f"{equal:.1%} equal",
    ]
    if name == "retry (default)":
        doubtful = [each.warnings for each in guarded.translations if each.warnings]
        cured = sum("second search" in warnings[0] for warnings in doubtful)
        parts.append(f"{len(doubtful)} doubtful, {cured} of them cured")
    if references is not None:
        texts = [translation.text for translation in guarded.translations]
        parts.append(f"BLEU {bleu(texts, references):.2f}")
    return ", ".join(parts)


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    main()

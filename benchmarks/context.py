"""Contrastive accuracy and BLEU of models with document context, and of the same model without.

    python benchmarks/context.py

The documents are generated: their pronouns refer to a thing in a sentence before, whose gender
only the context says. A contrastive example is a sentence with its translation, and the same with
pronouns of the other gender. Each source occurs in two contexts, in which the one or the other
translation is correct, so that a model without context is right in half of the examples. At
distance 1 the antecedent is in the sentence before, at distance 2 in that before it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import regard
from regard.cli.demo import SETTINGS
from regard.data.demo.english_french_documents import document_corpus, write_document_corpus
from runner import (
    Tree,
    add_options,
    evaluate_bleu,
    read_results,
    run_all_seeds,
    run_regard,
    setting_options,
    training_seconds,
)

COLUMNS = {"distance 1": "%", "distance 2": "%", "BLEU": ""}


@dataclass(frozen=True)
class System:
    """A model with a number of context sentences on each side."""

    source: int
    target: int

    @property
    def name(self) -> str:
        """The name in folders and results."""
        return f"{self.source}+{self.target}"


SYSTEMS = [System(0, 0), System(1, 0), System(2, 0), System(1, 1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Generate and prepare the data, train and evaluate all models, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("data/context"))
    parser.add_argument("--documents", type=int, default=20_000, help="for training")
    parser.add_argument("--steps", type=int, default=300)
    add_options(parser, "context", runs="runs/context", seeds=2)
    options = parser.parse_args(arguments)
    prepare(options.data, options.documents)
    run_all_seeds(SYSTEMS, _run_job, options)
    print(table(read_results(options.results)))


def prepare(data: Path, documents: int) -> None:
    """Write the text and a prepared folder for each system, all with the same tokenizer."""
    text, first = data / "text", data / SYSTEMS[0].name
    if not (text / "contrastive.jsonl").is_file():
        write_document_corpus(document_corpus(train=documents), text)
    for system in SYSTEMS:
        out = data / system.name
        if (out / "store.json").is_file():
            continue
        tokenizer = {"vocab_size": 1000} if out == first else {"tokenizer_from": first}
        regard.prepare(
            source=text / "train.en",
            target=text / "train.fr",
            valid=[text / "valid.en", text / "valid.fr"],
            source_lang="en",
            target_lang="fr",
            source_context=system.source,
            target_context=system.target,
            skip_duplicates=False,  # a sentence is as frequent as in its contexts
            out=out,
            **tokenizer,
        )


def _run_job(system: System, seed: int, options: Any) -> Tree:
    """Train a system with a seed, and evaluate it."""
    out, text = options.runs / f"{system.name}-{seed}", options.data / "text"
    settings = [
        f"{section}.{name}={str(value).lower() if isinstance(value, bool) else value}"
        for section, values in SETTINGS.items()
        for name, value in values.items()
    ]
    steps = f"training.max_steps={options.steps}", f"training.checkpoint_every={options.steps}"
    changed = *steps, "training.warmup_steps=60", f"training.seed={seed}"
    folders = ["--data", str(options.data / system.name), "--out", str(out)]
    run_regard("train", *folders, "--device", "cpu", *setting_options(*settings, *changed))
    contrastive = ["--contrastive", str(text / "contrastive.jsonl"), "--format", "json"]
    [result] = json.loads(run_regard("evaluate", str(out), *contrastive))["results"]
    search = ["--beam-size", "1", "--metrics", "bleu", "--backend", "torch"]
    return {
        "row": system.name,
        "seed": seed,
        "seconds": training_seconds(out),
        "BLEU": evaluate_bleu(out, str(text / "valid.en"), str(text / "valid.fr"), *search),
        **{name: 100 * accuracy for name, accuracy in result["categories"].items()},
    }


def table(results: Sequence[Tree]) -> str:
    """A row for each system: contrastive accuracies and BLEU, over all seeds."""
    lines = [
        "| context, source + target | distance 1 | distance 2 | BLEU |",
        "|---|---|---|---|",
    ]
    for system in SYSTEMS:
        rows = [result for result in results if result["row"] == system.name]
        if rows:
            cells = (_cell([row[name] for row in rows], unit) for name, unit in COLUMNS.items())
            lines.append(f"| {system.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float], unit: str) -> str:
    """The mean, and the minimum and maximum over the seeds."""
    spread = f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.1f}{f' {unit}' if unit else ''}{spread}"


if __name__ == "__main__":
    main()

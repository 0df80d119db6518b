"""BLEU by direction of one model for several directions, and of separate models of the same size.

    python benchmarks/many_languages.py --text ~/corpora --parallel 3 --device cuda
    python benchmarks/many_languages.py --text ~/corpora --parallel 3 --device cuda --test

English-German both ways (Multi30k and Tatoeba) and Chinese-English both ways (3AM). Every model has
the settings of the recipe. Models are evaluated on validation sets, with `--test` on test sets:
choose settings without it, and use it once. Each result is stored at once in a JSON file, so the
same command resumes after an interruption, and evaluates finished runs without training them again.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from regard.data.directions import Direction
from regard.evaluation.metrics import bleu_tokenizer
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

RECIPE = "recipes/multilingual.toml"


@dataclass(frozen=True)
class ParallelCorpus:
    """A corpus in two languages: the files' names up to the language."""

    name: str
    languages: tuple[str, str]
    train: str
    valid: str
    test: str | None = None
    suffix: str = ""  # of training files

    def files(self, part: str, direction: Direction) -> tuple[str, str]:
        """The files of a part ("train", "valid" or "test") in a direction."""
        suffix = self.suffix if part == "train" else ""
        source, target = (f"{getattr(self, part)}.{language}{suffix}" for language in direction)
        return source, target


CORPORA = [
    ParallelCorpus(
        "Multi30k", ("en", "de"), "multi30k/train", "multi30k/val", "multi30k/test_2016_flickr"
    ),
    ParallelCorpus(
        "Tatoeba", ("en", "de"), "tatoeba-de-en/train", "tatoeba-de-en/valid", suffix=".gz"
    ),
    ParallelCorpus("3AM", ("zh", "en"), "3am-zh-en/train", "3am-zh-en/val"),
]
DIRECTIONS = [
    Direction(*pair)
    for languages in dict.fromkeys(corpus.languages for corpus in CORPORA)
    for pair in permutations(languages)
]


@dataclass(frozen=True)
class System:
    """A model for some directions; several of them are sampled with a temperature."""

    directions: tuple[Direction, ...]
    temperature: float = 1.0

    @property
    def name(self) -> str:
        """The name in folders and results."""
        if len(self.directions) == 1:
            return str(self.directions[0])
        return f"many-T{self.temperature:g}"

    @property
    def data_name(self) -> str:
        """The name of its prepared folder, which all temperatures share."""
        return str(self.directions[0]) if len(self.directions) == 1 else "many"


def systems(temperatures: Sequence[float]) -> list[System]:
    """The models for all directions, and one for each."""
    many = [System(tuple(DIRECTIONS), temperature) for temperature in temperatures]
    return [*many, *(System((direction,)) for direction in DIRECTIONS)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare the data, train and evaluate the models, and print the table."""
    options = _options(arguments)
    if options.test:
        options.results = options.results.with_stem(f"{options.results.stem}-test")
    rows = systems(options.temperatures)
    for row in {row.data_name: row for row in rows}.values():
        prepare(row, options)
    run_all_seeds(rows, _run_job, options)
    print(table(read_results(options.results), rows, test=options.test))


def _options(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--text", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--data", type=Path, default=Path("data/many-languages"))
    parser.add_argument("--vocab-size", type=int, default=16000)
    parser.add_argument("--temperatures", type=float, nargs="+", default=[5.0])
    parser.add_argument("--many-steps", type=int, help="updates of models for all directions")
    parser.add_argument("--separate-steps", type=int, help="updates of models for one direction")
    parser.add_argument("--set", nargs="+", default=[], help="settings of all runs")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--test", action="store_true", help="evaluate on the test sets")
    add_options(parser, "many-languages", runs="runs/many-languages", seeds=1)
    return parser.parse_args(arguments)


def prepare(system: System, options: Any) -> None:
    """Write the prepared folder of a system, unless it exists."""
    out = options.data / system.data_name
    if (out / "store.json").is_file():
        return
    listed = options.data / f"{system.data_name}.toml"
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.write_text(corpora_file(system, options.text), encoding="utf-8")
    vocabulary = ["--vocab-size", str(options.vocab_size)]
    run_regard("prepare", "--corpora", str(listed), *vocabulary, "--out", str(out))


def corpora_file(system: System, text: Path) -> str:
    """The corpora file of a system."""
    tables = []
    for part in ("train", "valid"):
        for corpus in CORPORA:
            for direction in system.directions:
                if {*direction} == {*corpus.languages}:
                    source, target = corpus.files(part, direction)
                    tables.append(
                        f'[[{part}]]\nsource = "{text / source}"\ntarget = "{text / target}"\n'
                        f'source_lang = "{direction.source}"\ntarget_lang = "{direction.target}"\n'
                    )
    return "\n".join(tables)


def _run_job(system: System, seed: int, options: Any) -> Tree:
    """Train a system with a seed, and evaluate each of its directions on each corpus."""
    out = options.runs / f"{system.name}-{seed}"
    many = len(system.directions) > 1
    steps = options.many_steps if many else options.separate_steps
    settings = setting_options(
        f"training.seed={seed}",
        f"data.direction_temperature={system.temperature}",
        "training.tensorboard=false",
        *([] if steps is None else [f"training.max_steps={steps}"]),
        *options.set,
    )
    folders = ["--data", str(options.data / system.data_name), "--out", str(out)]
    run_regard("train", RECIPE, *folders, "--device", options.device, *settings)
    result: Tree = {"row": system.name, "seed": seed, "seconds": training_seconds(out)}
    for direction in system.directions:
        for corpus in CORPORA:
            if {*direction} == {*corpus.languages} and (corpus.test or not options.test):
                score = _bleu(out, corpus, direction, options)
                result[f"{direction} {corpus.name}"] = score
    return result


def _bleu(run: Path, corpus: ParallelCorpus, direction: Direction, options: Any) -> float:
    part = "test" if options.test else "valid"
    source, target = (str(options.text / name) for name in corpus.files(part, direction))
    languages = ["--source-lang", direction.source, "--target-lang", direction.target]
    tokenizer = ["--tokenize", bleu_tokenizer(direction.target), "--metrics", "bleu"]
    return evaluate_bleu(run, source, target, *languages, *tokenizer, "--device", options.device)


def table(results: Sequence[Tree], rows: Sequence[System], *, test: bool) -> str:
    """A row for each direction and corpus: BLEU of its own model, and of those for all."""
    many = [row.name for row in rows if len(row.directions) > 1]
    lines = [
        f"| direction, {'test' if test else 'validation'} set | own model | {' | '.join(many)} |",
        "|---|---|" + "---|" * len(many),
    ]
    for direction in DIRECTIONS:
        for corpus in CORPORA:
            name = f"{direction} {corpus.name}"
            cells = [_cell(results, system, name) for system in (str(direction), *many)]
            if any(cells):
                lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(results: Sequence[Tree], system: str, name: str) -> str:
    """Mean and standard deviation over seeds; empty without results."""
    scores = [result[name] for result in results if result["row"] == system and name in result]
    if not scores:
        return ""
    spread = f" ± {statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{spread}"


if __name__ == "__main__":
    main()

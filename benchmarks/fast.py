r"""Model shapes for deployment: candidates for recipes/multi30k-fast.toml.

    python benchmarks/fast.py --source val.en --reference val.de --parallel 8
    python benchmarks/fast.py --source val.en --reference val.de \
        --candidate "10+1: model.num_encoder_layers=10 model.num_decoder_layers=1"

Each candidate is the recipe with changed settings, trained with every seed and evaluated on the
validation set: lowercased BLEU with a beam of 5 and with greedy search. Each result is stored at
once in a JSON file, so the same command resumes after an interruption; the table is printed last.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import (
    Tree,
    add_options,
    count_parameters,
    evaluate_bleu,
    read_results,
    run_jobs,
    run_regard,
    setting_options,
    training_seconds,
)

RECIPE = Path("recipes/multi30k-fast.toml")


@dataclass(frozen=True)
class Candidate:
    """The recipe with changed settings."""

    name: str
    settings: tuple[str, ...]

    @staticmethod
    def of(text: str) -> Candidate:
        """Parse `name: section.setting=value ...`."""
        name, _, rest = text.partition(":")
        return Candidate(name.strip(), tuple(rest.split()))


def _shape(encoder: int, decoder: int, *more: str, name: str = "") -> Candidate:
    layers = f"model.num_encoder_layers={encoder}", f"model.num_decoder_layers={decoder}"
    return Candidate(f"{encoder}+{decoder}{name}", (*layers, *more))


UNDISTILLED = "data.folder=data/multi30k-en-de"
CANDIDATES = [
    _shape(4, 4, UNDISTILLED, name=" not distilled"),
    _shape(4, 4),
    _shape(6, 1, UNDISTILLED, name=" not distilled"),
    _shape(6, 1),
    _shape(6, 2),
    _shape(8, 1),
    _shape(10, 1),
    _shape(12, 1),
    _shape(12, 1, "training.learning_rate=2e-3", name=" half the rate"),
    _shape(6, 1, "training.r_drop=0", name=" without R-Drop"),
    _shape(6, 1, "data.subword_nbest_size=1", name=" without sampling"),
    _shape(6, 1, "model.ffn_dim=1024", name=" wide"),
]


def main() -> None:
    """Train and evaluate the missing candidates, then print the table."""
    options = _options()
    chosen = [Candidate.of(text) for text in options.candidate] or CANDIDATES
    results = read_results(options.results)
    finished = {(result["candidate"], result["seed"]) for result in results}
    jobs = [
        (candidate, seed)
        for seed in options.seeds
        for candidate in chosen
        if (candidate.name, seed) not in finished
    ]
    run_jobs(
        jobs,
        lambda job: run_job(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(read_results(options.results)))


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--source", default="val.en", help="source of the validation set")
    parser.add_argument("--reference", default="val.de", help="target of the validation set")
    parser.add_argument(
        "--candidate", nargs="+", default=[], help='"name: section.setting=value ..."'
    )
    parser.add_argument("--keep", action="store_true", help="keep the checkpoints")
    add_options(parser, "fast", runs="runs/fast", seeds=1)
    return parser.parse_args()


def run_job(candidate: Candidate, seed: int, options: Any) -> Tree:
    """Train a candidate with a seed, and evaluate on the validation set."""
    out = options.runs / f"{candidate.name.replace(' ', '-')}-{seed}"
    quiet = "training.tensorboard=false", "training.validate_bleu=false"
    arguments = setting_options(f"training.seed={seed}", *quiet, *candidate.settings)
    run_regard("train", str(RECIPE), "--out", str(out), *arguments)
    files = options.source, options.reference, "--lowercase"
    result = {
        "candidate": candidate.name,
        "settings": list(candidate.settings),
        "seed": seed,
        "bleu": evaluate_bleu(out, *files),
        "greedy": evaluate_bleu(out, *files, "--beam-size", "1"),
        "parameters": count_parameters(out),
        "seconds": training_seconds(out),
        "run": str(out),
    }
    if not options.keep:
        shutil.rmtree(out / "checkpoints")  # to save disk space
    return result


def table(results: Sequence[Tree]) -> str:
    """A row for each candidate, the best first."""
    lines = [
        "| candidate | parameters | BLEU, beam 5 | std | greedy | seconds | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    names = dict.fromkeys(result["candidate"] for result in results)
    groups = [[result for result in results if result["candidate"] == name] for name in names]
    for group in sorted(groups, key=lambda group: -_mean(group, "bleu")):
        bleus = [result["bleu"] for result in group]
        spread = f"{statistics.stdev(bleus):.2f}" if len(bleus) > 1 else ""
        lines.append(
            f"| {group[0]['candidate']} | {group[0]['parameters'] / 1e6:.2f}M "
            f"| {_mean(group, 'bleu'):.2f} | {spread} | {_mean(group, 'greedy'):.2f} "
            f"| {_mean(group, 'seconds'):.0f} | {len(group)} |"
        )
    return "\n".join(lines)


def _mean(results: Sequence[Tree], name: str) -> float:
    return statistics.mean(result[name] for result in results)


if __name__ == "__main__":
    main()

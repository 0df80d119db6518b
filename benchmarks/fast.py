r"""Which shape of model is best for deployment: candidates for recipes/multi30k-fast.toml.

    python benchmarks/fast.py --source val.en --reference val.de --parallel 8
    python benchmarks/fast.py --source val.en --reference val.de \
        --candidate "10+1: model.encoder_layers=10 model.decoder_layers=1"

Each candidate is the recipe with some settings changed, trained with every seed and measured on
the validation set, lower-cased: with a beam of 5 and greedily. Results are kept one by one in a
JSON file, so the same command goes on where it stopped; the table of what is there comes last.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from side_by_side import (
    Tree,
    add_options,
    all_of,
    bleu,
    parameters_of,
    regard,
    results_in,
    seconds_of,
    settings,
)

RECIPE = Path("recipes/multi30k-fast.toml")


@dataclass(frozen=True)
class Candidate:
    """The recipe with some settings changed."""

    name: str
    settings: tuple[str, ...]

    @staticmethod
    def of(text: str) -> Candidate:
        """From `name: section.setting=value ...`."""
        name, _, rest = text.partition(":")
        return Candidate(name.strip(), tuple(rest.split()))


def _shape(encoder: int, decoder: int, *more: str, name: str = "") -> Candidate:
    layers = f"model.encoder_layers={encoder}", f"model.decoder_layers={decoder}"
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
    _shape(6, 1, "data.sampling_candidates=1", name=" without sampling"),
    _shape(6, 1, "model.feedforward_width=1024", name=" wide"),
]


def main() -> None:
    """Train and measure what is missing, then show all."""
    options = _options()
    chosen = [Candidate.of(text) for text in options.candidate] or CANDIDATES
    results = results_in(options.results)
    done = {(result["candidate"], result["seed"]) for result in results}
    jobs = [(one, seed) for seed in options.seeds for one in chosen if (one.name, seed) not in done]
    all_of(
        jobs,
        lambda job: measured(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(results_in(options.results)))


def _options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--source", default="val.en", help="the validation set")
    parser.add_argument("--reference", default="val.de", help="its translation")
    parser.add_argument(
        "--candidate", nargs="+", default=[], help='"name: section.setting=value ..."'
    )
    parser.add_argument("--keep", action="store_true", help="keep checkpoints, not models alone")
    add_options(parser, "fast", runs="runs/fast", seeds=1)
    return parser.parse_args()


def measured(candidate: Candidate, seed: int, options: Any) -> Tree:
    """Train a candidate with a seed, and translate the validation set."""
    out = options.runs / f"{candidate.name.replace(' ', '-')}-{seed}"
    quiet = "training.tensorboard=false", "training.validate_bleu=false"
    words = settings(f"training.seed={seed}", *quiet, *candidate.settings)
    regard("train", str(RECIPE), "--out", str(out), *words)
    files = options.source, options.reference, "--lowercase"
    result = {
        "candidate": candidate.name,
        "settings": list(candidate.settings),
        "seed": seed,
        "bleu": bleu(out, *files),
        "greedy": bleu(out, *files, "--beam-size", "1"),
        "parameters": parameters_of(out),
        "seconds": seconds_of(out),
        "run": str(out),
    }
    if not options.keep:
        shutil.rmtree(out / "checkpoints")  # many models would fill a disk
    return result


def table(results: Sequence[Tree]) -> str:
    """A row for each candidate, the best first."""
    lines = [
        "| candidate | parameters | BLEU, beam 5 | spread | greedy | seconds | seeds |",
        "|---|---|---|---|---|---|---|",
    ]
    names = dict.fromkeys(result["candidate"] for result in results)
    owners = [[one for one in results if one["candidate"] == name] for name in names]
    for own in sorted(owners, key=lambda own: -_mean(own, "bleu")):
        bleus = [one["bleu"] for one in own]
        spread = f"{statistics.stdev(bleus):.2f}" if len(bleus) > 1 else ""
        lines.append(
            f"| {own[0]['candidate']} | {own[0]['parameters'] / 1e6:.2f}M "
            f"| {_mean(own, 'bleu'):.2f} | {spread} | {_mean(own, 'greedy'):.2f} "
            f"| {_mean(own, 'seconds'):.0f} | {len(own)} |"
        )
    return "\n".join(lines)


def _mean(results: Sequence[Tree], name: str) -> float:
    return statistics.mean(result[name] for result in results)


if __name__ == "__main__":
    main()

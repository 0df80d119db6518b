"""Perplexity by memory length, in training and in evaluation.

    python benchmarks/memory_length.py --text bible.en.txt.gz
    python benchmarks/memory_length.py --write      # write table and picture into docs/

The last tenth of the text is held out: half of it is the validation set, half the test set. The
same Transformer-XL (recipes/bible-xl.toml) is trained with memories of several lengths, and each
model is evaluated with several memory lengths. Each result is stored at once, so the same command
resumes after an interruption.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

from pages import fill, save_svg
from regard.data.line_reader import read_lines
from regard.devices import resolve_device
from regard.evaluation.perplexity import perplexity, read_documents
from regard.models.folder import load_model
from runner import (
    Tree,
    add_options,
    read_results,
    run_jobs,
    run_regard,
    setting_options,
    training_seconds,
)

RECIPE = "recipes/bible-xl.toml"
PAGE, PICTURE = Path("docs/results/architectures.md"), Path("docs/pictures/memory.svg")
TRAIN_LENGTHS = [0, 64, 128]  # memory lengths in training
EVAL_LENGTHS = [0, 32, 64, 128, 256, 512, 1024]  # memory lengths in evaluation


def main() -> None:
    """Train and evaluate the missing models, or write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="text file, plain or gzip")
    parser.add_argument("--data", type=Path, default=Path("data/bible"))
    parser.add_argument(
        "--set", dest="settings", nargs="+", default=[], help="settings of all runs"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true", help="only write table and picture")
    add_options(parser, "memory_length", runs="runs/memory", seeds=1)
    options = parser.parse_args()
    if options.write:
        results = read_results(options.results)
        draw(results, PICTURE)
        fill(PAGE, "memory", table(results))
        return
    if not options.data.is_dir():
        prepare(options.text, options.data)
    finished = {(result["memory"], result["seed"]) for result in read_results(options.results)}
    jobs = [(memory, seed) for seed in options.seeds for memory in TRAIN_LENGTHS]
    run_jobs(
        [job for job in jobs if job not in finished],
        lambda job: run_job(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(read_results(options.results)))


def prepare(text: Path, data: Path) -> None:
    """Split the text into train, valid and test, and prepare it; test lies beside the data."""
    lines = read_lines(text)
    ends = [len(lines) * share // 20 for share in (0, 18, 19, 20)]
    data.parent.mkdir(parents=True, exist_ok=True)
    paths = [data.with_name(f"{data.name}.{part}.txt") for part in ("train", "valid", "test")]
    for path, (begin, end) in zip(paths, pairwise(ends), strict=True):
        path.write_text("".join(line + "\n" for line in lines[begin:end]), encoding="utf-8")
    files = ["--text", str(paths[0]), "--valid-text", str(paths[1])]
    run_regard("prepare", *files, "--vocab-size", "8000", "--out", str(data))


def run_job(memory: int, seed: int, options: Any) -> Tree:
    """Train with a memory length, and evaluate with several."""
    out = options.runs / f"{memory}-{seed}"
    arguments = setting_options(
        *options.settings,
        f"model.memory_length={memory}",
        f"training.seed={seed}",
        "training.tensorboard=false",
    )
    paths = ["--data", str(options.data), "--out", str(out), "--device", options.device]
    run_regard("train", RECIPE, *paths, *arguments)
    folder, model = load_model(out, resolve_device(options.device))
    documents = read_documents(options.data.with_name(f"{options.data.name}.test.txt"))
    perplexities = {
        str(length): perplexity(model, folder.tokenizers.target, documents, memory=length).per_token
        for length in EVAL_LENGTHS
    }
    return {
        "memory": memory,
        "seed": seed,
        "seconds": training_seconds(out),
        "perplexity": perplexities,
    }


def table(results: list[Tree]) -> str:
    """A line for each run, a column for each evaluation length."""
    lengths = " | ".join(map(str, EVAL_LENGTHS))
    lines = [f"| memory in training | {lengths} |", "|---|" + "---|" * len(EVAL_LENGTHS)]
    for result in sorted(results, key=lambda result: (result["memory"], result["seed"])):
        cells = " | ".join(f"{result['perplexity'][str(n)]:.2f}" for n in EVAL_LENGTHS)
        lines.append(f"| {_name(result)} | {cells} |")
    return "\n".join(lines)


def draw(results: list[Tree], path: Path) -> None:
    """Draw the perplexities of the table."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes, positions = figure.add_subplot(), range(len(EVAL_LENGTHS))
    for result in results:
        axes.plot(
            positions,
            [result["perplexity"][str(n)] for n in EVAL_LENGTHS],
            "o-",
            label=_name(result),
        )
    axes.set_xticks(positions, [str(n) for n in EVAL_LENGTHS])
    axes.set(xlabel="memory length in evaluation", ylabel="perplexity per token")
    axes.grid(alpha=0.3)
    axes.legend()
    save_svg(figure, path)


def _name(result: Tree) -> str:
    return f"{result['memory']} tokens" if result["memory"] else "no memory"


if __name__ == "__main__":
    main()

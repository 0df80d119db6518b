"""What a memory is worth: perplexities with memories of several lengths, in training and after it.

    python benchmarks/memory_length.py --text bible.en.txt.gz
    python benchmarks/memory_length.py --write      # the table and the picture, into docs/

The last tenth of the text is not trained on: one half says which weights are best, the other is
foretold. The same Transformer-XL (recipes/bible-xl.toml) is trained without a memory and with two,
and each foretells the test text with memories of several lengths. Results are kept one by one, so
the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

from pages import fill, save
from regard.data.corpus import read_lines
from regard.devices import device_named
from regard.evaluation.perplexity import documents_of, perplexity
from regard.models.folder import load_model
from side_by_side import Tree, add_options, all_of, regard, results_in, seconds_of, settings

RECIPE = "recipes/bible-xl.toml"
PAGE, PICTURE = Path("docs/systems.md"), Path("docs/pictures/memory.svg")
TRAINED = [0, 64, 128]  # tokens that are remembered in training
REMEMBERED = [0, 32, 64, 128, 256, 512, 1024]  # and after it


def main() -> None:
    """Train and measure what is missing, or write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="running text, plain or gzip")
    parser.add_argument("--data", type=Path, default=Path("data/bible"))
    parser.add_argument("--set", dest="settings", nargs="+", default=[], help="for all runs")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", action="store_true", help="write the table, train nothing")
    add_options(parser, "memory_length", runs="runs/memory", seeds=1)
    options = parser.parse_args()
    if options.write:
        results = results_in(options.results)
        draw(results, PICTURE)
        fill(PAGE, "memory", table(results))
        return
    if not options.data.is_dir():
        prepare(options.text, options.data)
    done = {(result["memory"], result["seed"]) for result in results_in(options.results)}
    wanted = [(memory, seed) for seed in options.seeds for memory in TRAINED]
    all_of(
        [job for job in wanted if job not in done],
        lambda job: measured(*job, options),
        options.results,
        parallel=options.parallel,
        minutes=options.minutes,
    )
    print(table(results_in(options.results)))


def prepare(text: Path, data: Path) -> None:
    """Cut the text in three, and prepare it; the part to be foretold lies beside the data."""
    lines = read_lines(text)
    ends = [len(lines) * share // 20 for share in (0, 18, 19, 20)]
    data.parent.mkdir(parents=True, exist_ok=True)
    paths = [data.with_name(f"{data.name}.{part}.txt") for part in ("train", "valid", "test")]
    for path, (begin, end) in zip(paths, pairwise(ends), strict=True):
        path.write_text("".join(line + "\n" for line in lines[begin:end]), encoding="utf-8")
    files = ["--text", str(paths[0]), "--valid-text", str(paths[1])]
    regard("prepare", *files, "--vocab-size", "8000", "--out", str(data))


def measured(memory: int, seed: int, options: Any) -> Tree:
    """Train with a memory, and foretell the test text with several."""
    out = options.runs / f"{memory}-{seed}"
    words = settings(
        *options.settings,
        f"model.memory={memory}",
        f"training.seed={seed}",
        "training.tensorboard=false",
    )
    where = ["--data", str(options.data), "--out", str(out), "--device", options.device]
    regard("train", RECIPE, *where, *words)
    folder, model = load_model(out, device_named(options.device))
    documents = documents_of(options.data.with_name(f"{options.data.name}.test.txt"))
    found = {
        str(length): perplexity(model, folder.tokenizers.target, documents, memory=length).per_token
        for length in REMEMBERED
    }
    return {"memory": memory, "seed": seed, "seconds": seconds_of(out), "perplexity": found}


def table(results: list[Tree]) -> str:
    """A line for each run, a column for each length."""
    lengths = " | ".join(map(str, REMEMBERED))
    lines = [f"| trained with | {lengths} |", "|---|" + "---|" * len(REMEMBERED)]
    for result in sorted(results, key=lambda result: (result["memory"], result["seed"])):
        cells = " | ".join(f"{result['perplexity'][str(n)]:.2f}" for n in REMEMBERED)
        lines.append(f"| {_name(result)} | {cells} |")
    return "\n".join(lines)


def draw(results: list[Tree], path: Path) -> None:
    """The same as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3.2), layout="constrained")
    axes, places = figure.add_subplot(), range(len(REMEMBERED))
    for result in results:
        axes.plot(
            places, [result["perplexity"][str(n)] for n in REMEMBERED], "o-", label=_name(result)
        )
    axes.set_xticks(places, [str(n) for n in REMEMBERED])
    axes.set(xlabel="tokens remembered at evaluation", ylabel="perplexity of a token")
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, path)


def _name(result: Tree) -> str:
    return f"a memory of {result['memory']}" if result["memory"] else "no memory"


if __name__ == "__main__":
    main()

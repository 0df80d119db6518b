"""Our aligner beside those of thot (`pip install sil-thot`), if that is installed.

    python benchmarks/aligners.py
    python benchmarks/aligners.py --source train.en --target train.de

Without text, on pairs that are made up so that their links are known: the alignment error rate of
each direction and of both, and the time that learning and aligning take. With text, whose links
nobody knows: how far the others' links agree with ours (F1, by grow-diag-final-and).
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.aligner import BothWays, Ids
from regard.data.corpus import read_parallel
from regard.data.links import RULES, Links, links_of
from regard.data.rows import Rows
from regard.data.words import by_words
from regard.evaluation.alignment import Gold, agreement

Heads = list[tuple[Ids, Ids]]
WORDS = 2000


def made_up(count: int, seed: int) -> tuple[Rows, Rows, list[Gold]]:
    """Frequent and rare words that become none to three others, move about, and stray words."""
    draw = random.Random(seed)
    often = [1 / (rank + 3) for rank in range(WORDS)]
    sizes = draw.choices([0, 1, 2, 3], [0.08, 0.72, 0.17, 0.03], k=WORDS)
    becomes = [
        [[draw.randrange(WORDS) for _ in range(size)] for _ in range(draw.choice([1, 1, 2]))]
        for size in sizes
    ]
    sources, targets, gold = [], [], []
    for _ in range(count):
        source = draw.choices(range(WORDS), often, k=draw.randint(4, 20))
        blocks = [[(i, to) for to in draw.choice(becomes[s])] for i, s in enumerate(source)]
        for i in range(len(blocks) - 1):
            if draw.random() < 0.15:
                blocks[i], blocks[i + 1] = blocks[i + 1], blocks[i]
        if draw.random() < 0.2:
            blocks.append(blocks.pop(draw.randrange(len(blocks))))
        for block in blocks:
            if draw.random() < 0.06:
                block.append((-1, WORDS + draw.randrange(5)))
        words = [link for block in blocks for link in block]
        links = {(i, j) for j, (i, _) in enumerate(words) if i >= 0}
        sources.append(source)
        targets.append([to for _, to in words])
        gold.append(Gold(links, links))
    return _rows(sources), _rows(targets), gold


def _rows(lines: Sequence[Sequence[int]]) -> Rows:
    flat = np.array([word for line in lines for word in line], dtype=np.int64)
    return Rows(flat, np.cumsum([0, *map(len, lines)]))


def ours(source: Rows, target: Rows) -> Heads:
    """Both directions by our own aligner."""
    return list(BothWays.learn(source, target).heads(source, target))


def thots(kind: str, source: Rows, target: Rows) -> Heads:
    """Both directions by one of thot's."""
    module = importlib.import_module("thot.alignment")

    def one_way(source: Rows, target: Rows) -> list[Ids]:
        pairs = [
            ([f"{word}" for word in source[i]], [f"{word}" for word in target[i]])
            for i in range(len(source))
        ]
        model: Any = getattr(module, kind)()
        if hasattr(model, "variational_bayes"):
            model.variational_bayes = True  # as ours has it
        for pair in pairs:
            model.add_sentence_pair(*pair)
        model.start_training()
        for _ in range(5):
            model.train()
        model.end_training()
        return [_heads(model.get_best_alignment(*pair)[1], *map(len, pair)) for pair in pairs]

    return list(zip(one_way(source, target), one_way(target, source), strict=True))


def _heads(matrix: Any, sources: int, targets: int) -> Ids:
    heads = np.full(targets, -1)
    for i in range(sources):
        for j in range(targets):
            if matrix[i, j]:
                heads[j] = i
    return heads


def aligners() -> dict[str, Callable[[Rows, Rows], Heads]]:
    """Those that are installed."""
    found: dict[str, Callable[[Rows, Rows], Heads]] = {"ours": ours}
    if importlib.util.find_spec("thot"):
        for name, kind in (("fast_align", "FastAlignModel"), ("eflomal", "EflomalAlignmentModel")):
            found[f"thot, {name}"] = partial(thots, kind)
    return found


def compare(source: Rows, target: Rows, gold: list[Gold] | None) -> None:
    """A line of a table for each aligner."""
    columns = ["agreement with ours"] if gold is None else [f"AER, {rule}" for rule in RULES]
    print("| aligner | " + " | ".join(columns) + " | seconds |")
    print("|---|" + "---|" * (len(columns) + 1))
    grown: list[Links] = []
    for name, align in aligners().items():
        began = time.perf_counter()
        heads = align(source, target)
        seconds = time.perf_counter() - began
        if gold is None:
            links = [links_of(*both, "grow-diag-final-and") for both in heads]
            grown = grown or links
            same = agreement(links, [Gold(one, one) for one in grown])
            figures = [f"{100 - 100 * same.error_rate:.1f} %"]
        else:
            found = ([links_of(*both, rule) for both in heads] for rule in RULES)
            figures = [f"{100 * agreement(links, gold).error_rate:.1f} %" for links in found]
        print(f"| {name} | " + " | ".join(figures) + f" | {seconds:.1f} |", flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000, help="that are made up")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.source is None:
        compare(*made_up(options.pairs, options.seed))
    else:
        sources, targets = read_parallel(options.source, options.target)
        compare(by_words(sources).rows, by_words(targets).rows, None)


if __name__ == "__main__":
    main()

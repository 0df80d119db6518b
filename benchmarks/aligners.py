"""regard's word aligner compared with those of thot (`pip install sil-thot`), if installed.

    python benchmarks/aligners.py
    python benchmarks/aligners.py --source train.en --target train.de

Without text, on synthetic pairs with known links: the alignment error rate of each direction and
of the symmetrizations, and the time of training and aligning. With text: the agreement of the
others' links with regard's (F1, grow-diag-final-and).
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

from regard.data.aligner import BidirectionalAligner, Ids
from regard.data.alignment_input import segment_into_words
from regard.data.alignments import SYMMETRIZATIONS, Links, symmetrize
from regard.data.line_reader import read_parallel
from regard.data.rows import Rows
from regard.evaluation.alignment import GoldAlignment, score_alignments

Heads = list[tuple[Ids, Ids]]
WORDS = 2000


def synthetic_pairs(count: int, seed: int) -> tuple[Rows, Rows, list[GoldAlignment]]:
    """Pairs of random words with 0 to 3 translations each, reordering and unaligned words."""
    rng = random.Random(seed)
    frequencies = [1 / (rank + 3) for rank in range(WORDS)]
    sizes = rng.choices([0, 1, 2, 3], [0.08, 0.72, 0.17, 0.03], k=WORDS)
    translations = [
        [[rng.randrange(WORDS) for _ in range(size)] for _ in range(rng.choice([1, 1, 2]))]
        for size in sizes
    ]
    sources, targets, gold = [], [], []
    for _ in range(count):
        source = rng.choices(range(WORDS), frequencies, k=rng.randint(4, 20))
        blocks = [[(i, to) for to in rng.choice(translations[s])] for i, s in enumerate(source)]
        for i in range(len(blocks) - 1):
            if rng.random() < 0.15:
                blocks[i], blocks[i + 1] = blocks[i + 1], blocks[i]
        if rng.random() < 0.2:
            blocks.append(blocks.pop(rng.randrange(len(blocks))))
        for block in blocks:
            if rng.random() < 0.06:
                block.append((-1, WORDS + rng.randrange(5)))
        words = [link for block in blocks for link in block]
        links = {(i, j) for j, (i, _) in enumerate(words) if i >= 0}
        sources.append(source)
        targets.append([to for _, to in words])
        gold.append(GoldAlignment(links, links))
    return _rows(sources), _rows(targets), gold


def _rows(lines: Sequence[Sequence[int]]) -> Rows:
    flat = np.array([word for line in lines for word in line], dtype=np.int64)
    return Rows(flat, np.cumsum([0, *map(len, lines)]))


def our_alignments(source: Rows, target: Rows) -> Heads:
    """Both directions by regard's aligner."""
    return list(BidirectionalAligner.train(source, target).align(source, target))


def thot_alignments(kind: str, source: Rows, target: Rows) -> Heads:
    """Both directions by one of thot's aligners."""
    module = importlib.import_module("thot.alignment")

    def align_direction(source: Rows, target: Rows) -> list[Ids]:
        pairs = [
            ([f"{word}" for word in source[i]], [f"{word}" for word in target[i]])
            for i in range(len(source))
        ]
        model: Any = getattr(module, kind)()
        if hasattr(model, "variational_bayes"):
            model.variational_bayes = True  # as in regard's aligner
        for pair in pairs:
            model.add_sentence_pair(*pair)
        model.start_training()
        for _ in range(5):
            model.train()
        model.end_training()
        return [_heads(model.get_best_alignment(*pair)[1], *map(len, pair)) for pair in pairs]

    return list(zip(align_direction(source, target), align_direction(target, source), strict=True))


def _heads(matrix: Any, sources: int, targets: int) -> Ids:
    heads = np.full(targets, -1)
    for i in range(sources):
        for j in range(targets):
            if matrix[i, j]:
                heads[j] = i
    return heads


def aligners() -> dict[str, Callable[[Rows, Rows], Heads]]:
    """The installed aligners."""
    functions: dict[str, Callable[[Rows, Rows], Heads]] = {"regard": our_alignments}
    if importlib.util.find_spec("thot"):
        for name, kind in (("fast_align", "FastAlignModel"), ("eflomal", "EflomalAlignmentModel")):
            functions[f"thot, {name}"] = partial(thot_alignments, kind)
    return functions


def compare(source: Rows, target: Rows, gold: list[GoldAlignment] | None) -> None:
    """Print a table with a line for each aligner."""
    columns = (
        ["agreement with regard"] if gold is None else [f"AER, {rule}" for rule in SYMMETRIZATIONS]
    )
    print("| aligner | " + " | ".join(columns) + " | seconds |")
    print("|---|" + "---|" * (len(columns) + 1))
    reference: list[Links] = []
    for name, align in aligners().items():
        begin = time.perf_counter()
        heads = align(source, target)
        seconds = time.perf_counter() - begin
        if gold is None:
            links = [symmetrize(*both, "grow-diag-final-and") for both in heads]
            reference = reference or links
            agreement = score_alignments(links, [GoldAlignment(ref, ref) for ref in reference])
            figures = [f"{100 - 100 * agreement.error_rate:.1f} %"]
        else:
            by_rule = ([symmetrize(*both, rule) for both in heads] for rule in SYMMETRIZATIONS)
            scores = [score_alignments(links, gold) for links in by_rule]
            figures = [f"{100 * score.error_rate:.1f} %" for score in scores]
        print(f"| {name} | " + " | ".join(figures) + f" | {seconds:.1f} |", flush=True)


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--pairs", type=int, default=10_000, help="number of synthetic pairs")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.source is None:
        compare(*synthetic_pairs(options.pairs, options.seed))
    else:
        sources, targets = read_parallel(options.source, options.target)
        compare(segment_into_words(sources).rows, segment_into_words(targets).rows, None)


if __name__ == "__main__":
    main()

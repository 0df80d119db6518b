"""What is learned in a training contest: the same model, sentences and batches for everybody."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.data.sampling import epoch_batches
from regard.data.store import Store
from regard.text.special import SPECIAL

Pair = tuple[list[int], list[int]]  # ids of source and target, without end marks
FIRST_WORD = max(dataclasses.astuple(SPECIAL)) + 1


@dataclass(frozen=True)
class Size:
    """The shape of a model as in the paper: post-norm, ReLU, sinusoids, one table for all words."""

    layers: int  # of the encoder, and as many of the decoder
    width: int
    heads: int
    feedforward: int


SIZES = {
    "tiny": Size(layers=4, width=128, heads=4, feedforward=256),
    "base": Size(layers=6, width=512, heads=8, feedforward=2048),
    "big": Size(layers=6, width=1024, heads=16, feedforward=4096),
}


@dataclass(frozen=True)
class Lesson:
    """One contest. Dropout is on embeddings and on the output of every sub-layer."""

    size: Size
    device: str
    vocabulary: int
    batch_tokens: int  # at most so many source tokens, and as many target tokens, in a batch
    warmup: int  # updates before the clock runs
    updates: int  # while it runs
    store: str | None = None  # a prepared folder; None: made-up sentences
    lengths: tuple[int, int] = (32, 32)  # of made-up sentences, end mark included
    dropout: float = 0.1
    label_smoothing: float = 0.1
    learning_rate: float = 3e-4
    seed: int = 1

    def write(self, path: Path) -> None:
        """For another process to read."""
        path.write_text(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def read(path: Path) -> Lesson:
        """What `write` wrote."""
        tree = json.loads(path.read_text())
        tree |= {"size": Size(**tree["size"]), "lengths": tuple(tree["lengths"])}
        return Lesson(**tree)

    def pairs(self) -> list[Pair]:
        """All sentences."""
        return _made_up(self) if self.store is None else _stored(Path(self.store))

    def batches(self) -> list[list[Pair]]:
        """The batches of warm-up and contest, filled as regard's own training fills them."""
        pairs = self.pairs()
        source, target = (np.array([len(pair[side]) + 1 for pair in pairs]) for side in (0, 1))
        chosen = epoch_batches(source, target, budget=self.batch_tokens, seed=self.seed, epoch=0)
        wanted = self.warmup + self.updates
        if len(chosen) < wanted:
            raise ValueError(f"{wanted} batches are wanted, and the text has only {len(chosen)}.")
        return [[pairs[index] for index in indices] for indices in chosen[:wanted]]


def target_tokens(batch: Sequence[Pair]) -> int:
    """What is counted: every target token, and an end mark for each sentence."""
    return sum(len(target) + 1 for _, target in batch)


def _stored(folder: Path) -> list[Pair]:
    part = Store(folder).part("train")
    return [(part.source[i].tolist(), part.target[i].tolist()) for i in range(len(part))]


def _made_up(lesson: Lesson) -> list[Pair]:
    """Random ids; a target is about as long as its source."""
    draw = np.random.default_rng(lesson.seed)
    low, high = lesson.lengths
    wanted = (lesson.warmup + lesson.updates) * lesson.batch_tokens
    count = wanted // ((low + high) // 2)
    if low < high:
        count += count // 2  # batches are not quite full, and the longest sentences bind
    sources = draw.integers(low, high, count, endpoint=True)
    targets = np.clip(np.rint(sources * draw.normal(1.0, 0.1, count)), low, high).astype(int)

    def ids(length: int) -> list[int]:
        drawn: NDArray[np.int64] = draw.integers(FIRST_WORD, lesson.vocabulary, length - 1)
        return drawn.tolist()

    return [(ids(s), ids(t)) for s, t in zip(sources, targets, strict=True)]


def product_flops(size: Size, vocabulary: int, batch: Sequence[Pair]) -> float:
    """Of the matrix products that an update needs: forward once, and twice that backward.

    Real tokens only; of causal self-attention, only the half that is seen.
    """
    square, network = size.width**2, 2 * size.width * size.feedforward
    total = 0.0
    for source, target in ((len(s) + 1, len(t) + 1) for s, t in batch):
        encoder = source * (4 * square + network) + 2 * source**2 * size.width
        cross = 2 * (source + target) * square + 2 * source * target * size.width
        decoder = target * (4 * square + network) + target**2 * size.width + cross
        total += size.layers * (encoder + decoder) + target * size.width * vocabulary
    return 2 * 3 * total

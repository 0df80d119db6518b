"""The task of a training comparison: the same model, sentences and batches for all systems."""

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

Pair = tuple[list[int], list[int]]  # ids of source and target, without EOS
FIRST_TOKEN = max(dataclasses.astuple(SPECIAL)) + 1


@dataclass(frozen=True)
class Size:
    """Size of a post-norm Transformer with ReLU, sinusoidal positions and tied embeddings."""

    num_layers: int  # of the encoder, and of the decoder
    d_model: int
    num_heads: int
    ffn_dim: int


SIZES = {
    "tiny": Size(num_layers=4, d_model=128, num_heads=4, ffn_dim=256),
    "base": Size(num_layers=6, d_model=512, num_heads=8, ffn_dim=2048),
    "big": Size(num_layers=6, d_model=1024, num_heads=16, ffn_dim=4096),
}


@dataclass(frozen=True)
class TrainingTask:
    """Model, data and hyperparameters; dropout on embeddings and on every sub-layer's output."""

    size: Size
    device: str
    vocabulary: int
    batch_tokens: int  # maximum of source tokens, and of target tokens, per batch
    warmup: int  # updates that are not timed
    updates: int  # updates that are timed
    store: str | None = None  # a prepared folder; None: synthetic sentences
    lengths: tuple[int, int] = (32, 32)  # range of synthetic sentences' lengths, including EOS
    dropout: float = 0.1
    label_smoothing: float = 0.1
    learning_rate: float = 3e-4
    seed: int = 1

    def write(self, path: Path) -> None:
        """Write the task for another process to read."""
        path.write_text(json.dumps(dataclasses.asdict(self)))

    @staticmethod
    def read(path: Path) -> TrainingTask:
        """Read what `write` wrote."""
        tree = json.loads(path.read_text())
        tree |= {"size": Size(**tree["size"]), "lengths": tuple(tree["lengths"])}
        return TrainingTask(**tree)

    def pairs(self) -> list[Pair]:
        """All sentence pairs."""
        return _synthetic_pairs(self) if self.store is None else _read_pairs(Path(self.store))

    def batches(self) -> list[list[Pair]]:
        """The batches of warm-up and timing, filled as in regard's training."""
        pairs = self.pairs()
        source, target = (np.array([len(pair[side]) + 1 for pair in pairs]) for side in (0, 1))
        chosen = epoch_batches(
            source, target, max_tokens=self.batch_tokens, seed=self.seed, epoch=0
        )
        required = self.warmup + self.updates
        if len(chosen) < required:
            raise ValueError(f"The corpus has {len(chosen)} batches; {required} are required.")
        return [[pairs[index] for index in indices] for indices in chosen[:required]]


def target_tokens(batch: Sequence[Pair]) -> int:
    """The number of target tokens, including EOS."""
    return sum(len(target) + 1 for _, target in batch)


def _read_pairs(folder: Path) -> list[Pair]:
    part = Store(folder).part("train")
    return [(part.source[i].tolist(), part.target[i].tolist()) for i in range(len(part))]


def _synthetic_pairs(task: TrainingTask) -> list[Pair]:
    """Random ids; a target is about as long as its source."""
    rng = np.random.default_rng(task.seed)
    low, high = task.lengths
    tokens = (task.warmup + task.updates) * task.batch_tokens
    count = tokens // ((low + high) // 2)
    if low < high:
        count += count // 2  # batches of unequal lengths are not completely filled
    sources = rng.integers(low, high, count, endpoint=True)
    targets = np.clip(np.rint(sources * rng.normal(1.0, 0.1, count)), low, high).astype(int)

    def ids(length: int) -> list[int]:
        sample: NDArray[np.int64] = rng.integers(FIRST_TOKEN, task.vocabulary, length - 1)
        return sample.tolist()

    return [(ids(s), ids(t)) for s, t in zip(sources, targets, strict=True)]


def matmul_flops(size: Size, vocabulary: int, batch: Sequence[Pair]) -> float:
    """FLOPs of the matrix products of an update, forward and backward.

    Padding is not counted, and only half of causal self-attention.
    """
    square, network = size.d_model**2, 2 * size.d_model * size.ffn_dim
    total = 0.0
    for source, target in ((len(s) + 1, len(t) + 1) for s, t in batch):
        encoder = source * (4 * square + network) + 2 * source**2 * size.d_model
        cross = 2 * (source + target) * square + 2 * source * target * size.d_model
        decoder = target * (4 * square + network) + target**2 * size.d_model + cross
        total += size.num_layers * (encoder + decoder) + target * size.d_model * vocabulary
    return 2 * 3 * total

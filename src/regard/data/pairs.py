"""Pairs of sentences as batches, with what a store holds beside them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batch import (
    Batch,
    DistilledBatch,
    DistilledFertilityBatch,
    Distributions,
    FertilityBatch,
)
from regard.data.content import Corpus
from regard.data.loader import DataConfig, FixedDataset
from regard.data.ragged import Lengths, Ragged
from regard.data.sampling import Indices, Weights
from regard.data.store import Part, Store
from regard.errors import ConfigError
from regard.text.recut import Recutter
from regard.text.special import SPECIAL

_BATCHES: dict[tuple[str, ...], type[Batch]] = {
    (): Batch,
    ("fertilities",): FertilityBatch,
    ("distributions",): DistilledBatch,
    ("fertilities", "distributions"): DistilledFertilityBatch,
}


class PairDataset(FixedDataset):
    """The pairs of a part; in training, words may be segmented anew each time."""

    def __init__(
        self,
        part: Part,
        *,
        seed: int = 0,
        weights: Weights | None = None,
        recutters: Sequence[Recutter] = (),
    ) -> None:
        source, target = (side.lengths() + 1 for side in part.sides)  # EOS included
        super().__init__(source, target, collate=self._batch, weights=weights)
        self.seed, self._part, self._recutters = seed, part, recutters

    @staticmethod
    def of(store: Store, part: Part, config: DataConfig, seed: int) -> PairDataset:
        """The training pairs of a store, as the settings say."""
        weights = pair_weights(part.corpora, config.weights)
        return PairDataset(part, seed=seed, weights=weights, recutters=recutters(store, config))

    def _batch(self, indices: Indices, epoch: int | None) -> Batch:
        if not self._recutters or epoch is None:
            return collate(self._part, indices.tolist())  # plain numbers are quicker to look up
        draws = [Random(f"{self.seed} {epoch} {index}") for index in indices]
        rows = []
        for recutter, sentences in zip(self._recutters, self._part.sides, strict=True):
            ids = [sentences[index].tolist() for index in indices]
            rows.append(with_ends([*map(recutter.recut, ids, draws)]))
        source, target = rows
        return Batch(source, target)


def recutters(store: Store, config: DataConfig) -> list[Recutter]:
    """What cuts words of source and target anew, if anything should."""
    if config.sampling_candidates == 1:
        return []
    if store.tokenizers.config.kind != "unigram":
        raise ConfigError(
            "data.sampling_candidates needs a unigram tokenizer, and this store's is "
            f"{store.tokenizers.config.kind}. Prepare with --tokenizer unigram, or set it to 1."
        )
    return [
        Recutter(
            tokenizer,
            candidates=config.sampling_candidates,
            temperature=config.sampling_temperature,
        )
        for tokenizer in (store.tokenizers.source, store.tokenizers.target)
    ]


def pair_weights(corpora: Sequence[Corpus], weights: Sequence[float]) -> Weights | None:
    """The weight of each pair, from those of its corpora; None if each pair comes once."""
    if not weights:
        return None
    if len(weights) != len(corpora):
        raise ConfigError(
            f"data.weights has {len(weights)} numbers, and {len(corpora)} are needed, one for each "
            f"corpus: {'; '.join(map(str, corpora))}. Give them in this order, or none at all."
        )
    sizes = [corpus.pairs for corpus in corpora]
    expected = float(np.dot(weights, sizes))
    if expected < 1:  # most epochs, or all, would be empty
        raise ConfigError(
            f"data.weights is {list(weights)}: that leaves {expected:g} pairs an epoch, of "
            f"{sum(sizes)}. Use larger weights."
        )
    return np.repeat(np.asarray(weights, dtype=np.float64), sizes)


def collate(part: Part, indices: Sequence[int]) -> Batch:
    """The pairs of these indices as one batch, of the type that suits what the part holds."""
    source = with_ends([part.source[index] for index in indices])
    target = with_ends([part.target[index] for index in indices])
    beside: dict[str, Any] = {}
    if part.fertilities is not None:  # EOS stands for nothing
        beside["fertilities"] = joined([part.fertilities[index] for index in indices], last=0)
    if part.distributions is not None:
        records = np.concatenate([part.distributions[index] for index in indices])
        words = torch.from_numpy(records["ids"].astype(np.int64))
        probabilities = torch.from_numpy(records["probabilities"])
        beside["distributions"] = Distributions(words, probabilities)
    return _BATCHES[tuple(beside)](source, target, **beside)


def with_ends(sentences: Sequence[Sequence[int] | NDArray[np.integer]]) -> Ragged:
    """Sentences of ids as a flat row, each followed by its end mark."""
    lengths = [len(sentence) + 1 for sentence in sentences]
    return Ragged(joined(sentences, last=SPECIAL.end), Lengths.of(lengths))


def joined(rows: Sequence[Sequence[int] | NDArray[np.integer]], *, last: int) -> Tensor:
    """Rows of numbers as one, each followed by a last number."""
    numbers = np.full(sum(map(len, rows)) + len(rows), last, dtype=np.int64)
    begin = 0
    for row in rows:
        numbers[begin : begin + len(row)] = row
        begin += len(row) + 1
    return torch.from_numpy(numbers)

"""Datasets and batches of sentence pairs, with a store's fertilities and distributions."""

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
    ContextBatch,
    DistilledBatch,
    DistilledFertilityBatch,
    Distributions,
    FertilityBatch,
)
from regard.data.content import Corpus
from regard.data.directions import Direction
from regard.data.document_context import SEPARATOR
from regard.data.loader import DataConfig, FixedDataset
from regard.data.ragged import Lengths, Ragged
from regard.data.sampling import Indices, Weights
from regard.data.store import Part, Store
from regard.data.temperature import temperature_rates
from regard.errors import ConfigError
from regard.text.special import SPECIAL
from regard.text.subword_sampling import SubwordSampler

Ids = Sequence[int] | NDArray[np.integer]
_BATCHES: dict[tuple[str, ...], type[Batch]] = {
    (): Batch,
    ("fertilities",): FertilityBatch,
    ("distributions",): DistilledBatch,
    ("fertilities", "distributions"): DistilledFertilityBatch,
}


class PairDataset(FixedDataset):
    """The pairs of a part; in training, with subword regularization if it is enabled."""

    def __init__(
        self,
        part: Part,
        *,
        seed: int = 0,
        weights: Weights | None = None,
        subword_samplers: Sequence[SubwordSampler] = (),
    ) -> None:
        source, target = (side.lengths() + 1 for side in part.sides)  # EOS included
        super().__init__(source, target, collate=self._batch, weights=weights)
        self.seed, self._part, self._subword_samplers = seed, part, subword_samplers

    @staticmethod
    def of(store: Store, part: Part, config: DataConfig, seed: int) -> PairDataset:
        """The training pairs of a store."""
        weights = pair_weights(part.corpora, config.corpus_weights, config.direction_temperature)
        return PairDataset(
            part, seed=seed, weights=weights, subword_samplers=subword_samplers(store, config)
        )

    def _batch(self, indices: Indices, epoch: int | None) -> Batch:
        if not self._subword_samplers or epoch is None:
            return collate(self._part, indices.tolist())  # indexing with Python integers is faster
        generators = [Random(f"{self.seed} {epoch} {index}") for index in indices]
        sides = []
        for subword_sampler, sentences in zip(
            self._subword_samplers, self._part.sides, strict=True
        ):
            ids = [sentences[index].tolist() for index in indices]
            sides.append([*map(subword_sampler.sample, ids, generators)])
        return pair_batch(*sides, has_target_context=self._part.has_target_context)


def subword_samplers(store: Store, config: DataConfig) -> list[SubwordSampler]:
    """Subword samplers of source and target; none if subword regularization is disabled."""
    if config.subword_nbest_size == 1:
        return []
    if store.tokenizers.config.kind != "unigram":
        raise ConfigError(
            "data.subword_nbest_size requires a unigram tokenizer, but that of the data is "
            f"{store.tokenizers.config.kind}. Prepare the data with --tokenizer unigram, or set "
            "data.subword_nbest_size=1."
        )
    return [
        SubwordSampler(
            tokenizer,
            candidates=config.subword_nbest_size,
            temperature=config.subword_temperature,
        )
        for tokenizer in (store.tokenizers.source, store.tokenizers.target)
    ]


def pairs_by_direction(corpora: Sequence[Corpus]) -> dict[Direction, Indices]:
    """The indices of the pairs of each direction; empty if there is only one, without tags."""
    indices: dict[Direction, list[Indices]] = {}
    begin = 0
    for corpus in corpora:
        if corpus.direction is not None and corpus.pairs:
            indices.setdefault(corpus.direction, []).append(np.arange(begin, begin + corpus.pairs))
        begin += corpus.pairs
    return {direction: np.concatenate(parts) for direction, parts in indices.items()}


def pair_weights(
    corpora: Sequence[Corpus], weights: Sequence[float], temperature: float = 1.0
) -> Weights | None:
    """The weight of each pair; None if each is read once.

    It is that of its corpus, times the rate of its direction by temperature sampling.
    """
    directions = {corpus.direction for corpus in corpora}
    is_balanced = temperature != 1 and len(directions) > 1
    if not weights and not is_balanced:
        return None
    if weights and len(weights) != len(corpora):
        raise ConfigError(
            f"data.corpus_weights has {len(weights)} values, but the data has {len(corpora)} "
            f"corpora: {'; '.join(map(str, corpora))}. Give one weight for each, in this order, or "
            "none at all."
        )
    sizes = [corpus.pairs for corpus in corpora]
    by_corpus = np.asarray(weights or [1.0] * len(corpora), dtype=np.float64)
    expected = float(np.dot(by_corpus, sizes))
    if expected < 1:  # most epochs would be empty
        raise ConfigError(
            f"data.corpus_weights is {list(weights)}: this leaves {expected:g} pairs per epoch, of "
            f"{sum(sizes)}. Use larger weights."
        )
    if is_balanced:
        by_corpus = by_corpus * _direction_rates(corpora, by_corpus, temperature)
    return np.repeat(by_corpus, sizes)


def _direction_rates(
    corpora: Sequence[Corpus], weights: Weights, temperature: float
) -> NDArray[np.float64]:
    """The rate of each corpus's direction, whose size is the number of its weighted pairs."""
    sizes: dict[object, float] = {}
    for corpus, weight in zip(corpora, weights, strict=True):
        sizes[corpus.direction] = sizes.get(corpus.direction, 0.0) + weight * corpus.pairs
    rates = dict(zip(sizes, temperature_rates([*sizes.values()], temperature), strict=True))
    return np.array([rates[corpus.direction] for corpus in corpora])


def collate(part: Part, indices: Sequence[int]) -> Batch:
    """A batch of the pairs with these indices, of the type for the fields of the part."""
    sources, targets = ([side[index] for index in indices] for side in part.sides)
    if part.has_target_context:
        return pair_batch(sources, targets, has_target_context=True)
    source, target = with_eos(sources), with_eos(targets)
    extra: dict[str, Any] = {}
    if part.fertilities is not None:  # EOS has fertility 0
        extra["fertilities"] = concatenate_rows(
            [part.fertilities[index] for index in indices], last=0
        )
    if part.distributions is not None:
        records = np.concatenate([part.distributions[index] for index in indices])
        token_ids = torch.from_numpy(records["ids"].astype(np.int64))
        probabilities = torch.from_numpy(records["probabilities"])
        extra["distributions"] = Distributions(token_ids, probabilities)
    return _BATCHES[tuple(extra)](source, target, **extra)


def pair_batch(
    sources: Sequence[Ids], targets: Sequence[Ids], *, has_target_context: bool = False
) -> Batch:
    """A batch of pairs of ids, without EOS."""
    source, target = with_eos(sources), with_eos(targets)
    if not has_target_context:
        return Batch(source, target)
    return context_batch(source, target, [*map(context_length, targets)])


def context_batch(source: Ragged, target: Ragged, lengths: Sequence[int]) -> ContextBatch:
    """A batch of pairs; `lengths` are those of the context of each target."""
    return ContextBatch(
        source, target, filler=sum(lengths), context_lengths=torch.tensor(lengths, dtype=torch.long)
    )


def context_length(ids: Ids) -> int:
    """The number of ids of an example that are context, separators included."""
    places = np.flatnonzero(np.asarray(ids) == SEPARATOR)
    return int(places[-1]) + 1 if len(places) else 0


def with_eos(sentences: Sequence[Ids]) -> Ragged:
    """Sentences of ids as a ragged row, each with EOS appended."""
    lengths = [len(sentence) + 1 for sentence in sentences]
    return Ragged(concatenate_rows(sentences, last=SPECIAL.eos), Lengths.of(lengths))


def concatenate_rows(rows: Sequence[Ids], *, last: int) -> Tensor:
    """Concatenate rows of values, each followed by `last`."""
    values = np.full(sum(map(len, rows)) + len(rows), last, dtype=np.int64)
    begin = 0
    for row in rows:
        values[begin : begin + len(row)] = row
        begin += len(row) + 1
    return torch.from_numpy(values)

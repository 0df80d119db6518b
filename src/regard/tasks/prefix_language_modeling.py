"""Prefix language modeling (UniLM): pairs of sentences, each as one row under several masks.

The objective of each batch is drawn: the target given the source (sequence to sequence), the next
token (left to right), or masked tokens (bidirectional).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from regard.data.batch import Batch
from regard.data.loader import Dataset, Examples
from regard.data.masking import Masker
from regard.data.pairs import PairDataset
from regard.data.prefix_rows import (
    ObjectiveMixConfig,
    as_rows,
    from_left_to_right,
    with_hidden_words,
)
from regard.data.sampling import Indices
from regard.data.store import Store
from regard.models.unilm import UnilmConfig
from regard.tasks.translation import Translation
from regard.text.special import SPECIAL
from regard.training.config import RunConfig


class PrefixLanguageModeling(Translation):
    """Source to target in one stack."""

    name = "prefix_language_modeling"
    distills = False

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs as rows."""
        model = cast(UnilmConfig, config.model)
        masker = Masker(store.tokenizers.target, config.data.masking, SPECIAL.unknown)
        pairs = self.pairs(store, config, self.training_part(store, config))
        return PrefixDataset(pairs, model.masks, model.start_mark, masker)


class PrefixDataset:
    """The training pairs of a part as rows, under one of the objectives in each batch."""

    def __init__(
        self, pairs: PairDataset, mix: ObjectiveMixConfig, start: int, masker: Masker
    ) -> None:
        self.pairs, self.mix, self.start, self.masker = pairs, mix, start, masker

    def examples(self, epoch: int | None) -> PrefixExamples:
        """All pairs."""
        return PrefixExamples(self, self.pairs.examples(epoch), epoch)

    def empty_batch(self) -> Batch:
        """A batch without a target."""
        return Batch.empty()


class PrefixExamples(Examples):
    """The pairs of one epoch as rows."""

    def __init__(self, dataset: PrefixDataset, pairs: Examples, epoch: int | None) -> None:
        super().__init__(pairs.source, pairs.target, pairs.weights)
        self._dataset, self._pairs, self._epoch = dataset, pairs, epoch

    def batch(self, indices: Indices, whole: Indices) -> Batch:
        """Some pairs, under the objective that is drawn for the whole batch."""
        dataset, seed = self._dataset, self._dataset.pairs.seed
        batch = self._pairs.batch(indices, whole)
        assert self._epoch is not None, "validation reads pairs"
        objective = dataset.mix.drawn(f"{seed} {self._epoch} {whole[0]} {len(whole)}")
        if objective == "bidirectional":
            draws = [np.random.default_rng([seed, self._epoch, index]) for index in indices]
            return with_hidden_words(batch, dataset.start, dataset.masker, draws)
        make = as_rows if objective == "prefix" else from_left_to_right
        return make(batch, dataset.start)

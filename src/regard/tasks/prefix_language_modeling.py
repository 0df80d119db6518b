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


class PrefixDataset(Dataset):
    """The training pairs of a part as rows, under one of the objectives in each batch."""

    def __init__(
        self, pairs: PairDataset, mix: ObjectiveMixConfig, start: int, masker: Masker
    ) -> None:
        self._pairs, self._mix, self._start, self._masker = pairs, mix, start, masker

    def examples(self, epoch: int | None) -> Examples:
        """All pairs; the objective of a batch is drawn for the whole of it."""
        assert epoch is not None, "validation reads pairs"
        pairs, seed = self._pairs.examples(epoch), self._pairs.seed

        def collate(indices: Indices, whole: Indices) -> Batch:
            batch = pairs.batch(indices, whole)
            objective = self._mix.drawn(f"{seed} {epoch} {whole[0]} {len(whole)}")
            if objective == "bidirectional":
                draws = [np.random.default_rng([seed, epoch, index]) for index in indices]
                return with_hidden_words(batch, self._start, self._masker, draws)
            make = as_rows if objective == "prefix" else from_left_to_right
            return make(batch, self._start)

        return Examples(pairs.source, pairs.target, collate=collate, weights=pairs.weights)

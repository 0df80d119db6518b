"""Prefix language modeling (UniLM): sentence pairs as one sequence, under several masks.

The objective of each batch is sampled: the target given the source (sequence to sequence), the next
token (left to right), or masked tokens (bidirectional).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from regard.data.batch import Batch
from regard.data.loader import Dataset, Examples
from regard.data.masking import Masker
from regard.data.pairs import PairDataset
from regard.data.prefix_lm import (
    ObjectiveMixConfig,
    to_causal_batch,
    to_masked_batch,
    to_prefix_batch,
)
from regard.data.sampling import Indices
from regard.data.store import Store
from regard.models.unilm import UnilmConfig
from regard.tasks.translation import Translation
from regard.text.special import SPECIAL
from regard.training.config import RunConfig


class PrefixLanguageModeling(Translation):
    """Translation with a single stack."""

    name = "prefix_language_modeling"
    distills = False
    document_context = "source"

    def training_data(self, store: Store, config: RunConfig) -> Dataset:
        """Pairs as single sequences."""
        model = cast(UnilmConfig, config.model)
        masker = Masker(store.tokenizers.target, config.data.masking, SPECIAL.unk)
        pairs = self.pairs(store, config, self.training_part(store, config))
        return PrefixDataset(pairs, model.masks, model.decoder_start_id, masker)


class PrefixDataset(Dataset):
    """Training pairs as single sequences; each batch has one of the objectives."""

    def __init__(
        self, pairs: PairDataset, mix: ObjectiveMixConfig, start: int, masker: Masker
    ) -> None:
        self._pairs, self._mix, self._start, self._masker = pairs, mix, start, masker

    def examples(self, epoch: int | None) -> Examples:
        """All pairs; the objective is sampled once per batch."""
        assert epoch is not None, "validation reads pairs"
        pairs, seed = self._pairs.examples(epoch), self._pairs.seed

        def collate(indices: Indices, whole: Indices) -> Batch:
            batch = pairs.collate(indices, whole)
            objective = self._mix.sample(f"{seed} {epoch} {whole[0]} {len(whole)}")
            if objective == "bidirectional":
                generators = [np.random.default_rng([seed, epoch, index]) for index in indices]
                return to_masked_batch(batch, self._start, self._masker, generators)
            to_batch = to_prefix_batch if objective == "prefix" else to_causal_batch
            return to_batch(batch, self._start)

        return Examples(pairs.source, pairs.target, collate=collate, weights=pairs.weights)

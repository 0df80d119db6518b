"""Permutation language modeling (XLNet): plain text, tokens in a random order.

L = - sum_{t in the last 1/K of z} log p(x_{z_t} | x_{z_<t})
"""

from __future__ import annotations

from typing import cast

from regard.data.loader import Dataset
from regard.data.store import Store
from regard.data.streams import PermutedDataset
from regard.models.permuted import PermutedConfig
from regard.tasks.language_modeling import LanguageModeling
from regard.tasks.pipelines import Embedder
from regard.training.config import RunConfig


class PermutationLanguageModeling(LanguageModeling):
    """Prediction of tokens of plain text in random order."""

    name = "permutation_language_modeling"
    pipeline = Embedder
    usage = "regard evaluate {} --text your.txt"

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store, as permuted segments."""
        model = cast(PermutedConfig, config.model)
        documents, tokens = store.text(part).documents, config.data.batch_tokens
        return PermutedDataset(
            documents, model.max_positions, tokens, model.partial_prediction_k, seed
        )

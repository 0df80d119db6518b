"""Masked language modeling (BERT): plain text, masked tokens from all others.

L = - sum_{t masked} log p(x_t | the rest) - w log p(the second segment follows the first)
"""

from __future__ import annotations

from typing import cast

from regard.data.batch import Batch
from regard.data.loader import Dataset
from regard.data.masking import Masker
from regard.data.plain_text import MaskedDataset
from regard.data.store import Store
from regard.models.base import Model
from regard.models.masked import MaskedConfig, SentencePairPredictions
from regard.models.protocol import Predictions
from regard.tasks.language_modeling import LanguageModeling
from regard.tasks.pipelines import MaskFiller
from regard.training.config import RunConfig
from regard.training.losses import Loss, add_next_sentence
from regard.training.objective import Objective


class MaskedLanguageModeling(LanguageModeling):
    """Prediction of masked tokens in plain text."""

    name = "masked_language_modeling"
    pipeline = MaskFiller
    usage = 'regard fill {} "Once upon a [MASK]"'

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store, as masked segments."""
        model = cast(MaskedConfig, config.model)
        masker = Masker(store.tokenizers.source, config.data.masking, model.mask_id)
        return MaskedDataset(
            store.text(part).documents,
            model.max_positions,
            model.decoder_start_id,
            masker,
            seed=seed,
            sentence_pairs=model.next_sentence,
        )

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Cross-entropy and next-sentence loss."""
        return MaskedObjective(config.training)


class MaskedObjective(Objective):
    """Cross-entropy of masked tokens, and the next-sentence loss of sentence pairs."""

    def loss(self, predictions: Predictions, batch: Batch) -> Loss:
        """The loss of the predictions."""
        loss = super().loss(predictions, batch)
        if not isinstance(predictions, SentencePairPredictions):
            return loss
        weight = self.config.next_sentence_weight
        return add_next_sentence(loss, predictions, weight, self.passes)

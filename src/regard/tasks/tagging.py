"""Tagging: a label for each word of a sentence.

L = - sum_i log p(y_i | x), or - log p(y | x) with a CRF
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from torch import Tensor

from regard.data.batch import Batch
from regard.data.byte_features import ByteFeatures
from regard.data.content import TAGGED
from regard.data.file_options import TaggedFiles
from regard.data.labelled import Collate, LabelledDataset, TaggedCollate
from regard.data.loader import Dataset
from regard.data.pairs import subword_samplers
from regard.data.store import Store
from regard.errors import ConfigError
from regard.evaluation.options import TaggedOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import DataStatistics
from regard.models.labelling import LabelModel, LabelPredictions
from regard.models.protocol import Predictions
from regard.models.tagger import TaggerConfig
from regard.tasks.base import Task
from regard.tasks.pipelines import Tagger
from regard.training.config import RunConfig
from regard.training.losses import Loss, crf_loss
from regard.training.objective import Objective


class Labelling(Task):
    """Base class of tagging and classification."""

    metrics = ("accuracy",)
    resegments = True

    def data_statistics(self, config: ModelConfig, store: Store) -> DataStatistics:
        """Data statistics, with the column of the labels."""
        assert config.context is not None
        column = store.description["parts"]["train"].get("column")
        return DataStatistics(config.context, 1.0, column, self.texts_per_example(store))

    def texts_per_example(self, store: Store) -> int:
        """The number of texts that share a label."""
        return 1

    def collate(self, store: Store, config: RunConfig) -> Collate:
        """The collate function of the examples."""
        raise NotImplementedError

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store, as labelled examples."""
        return LabelledDataset(
            store.labelled(part),
            self.collate(store, config),
            special_tokens=1 + self.texts_per_example(store),
            seed=seed,
            subword_sampler=next(iter(subword_samplers(store, config.data)), None),
        )

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Cross-entropy or CRF loss."""
        return LabelObjective(config.training)

    def measured(self, model: Model, predictions: Any, batch: Any) -> Mapping[str, Tensor]:
        """The number of correct labels."""
        predicted = cast(LabelModel, model).predict_labels(predictions)
        return {"accuracy": (predicted == predictions.targets).sum()}


class LabelObjective(Objective):
    """Cross-entropy of labels; with a CRF, of the label sequence of a sentence."""

    def loss(self, predictions: Predictions, batch: Batch) -> Loss:
        """The loss of the predictions."""
        if isinstance(predictions, LabelPredictions) and predictions.chain is not None:
            return crf_loss(predictions)
        return super().loss(predictions, batch)


class Tagging(Labelling):
    """A label for each word."""

    name = "tagging"
    content = TAGGED
    files = TaggedFiles
    evaluation = TaggedOptions
    pipeline = Tagger
    usage = "regard tag {} < your.txt"

    def problems(self, config: RunConfig) -> Iterator[str]:
        """Label smoothing and R-Drop are not supported with a CRF."""
        yield from super().problems(config)
        if not cast(TaggerConfig, config.model).crf:
            return
        for setting in ("label_smoothing", "r_drop"):
            if getattr(config.training, setting):
                yield (
                    f"training.{setting} is not supported with model.crf; set training.{setting}=0"
                )

    def collate(self, store: Store, config: RunConfig) -> Collate:
        """The collate function of sentences, with character features if the model uses them."""
        model = cast(TaggerConfig, config.model)
        byte_features = ByteFeatures(store.tokenizers.source) if model.char_embedding_dim else None
        return TaggedCollate(model.decoder_start_id, byte_features)

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """A part of a store; raises an error if a sentence exceeds the context of the model."""
        longest = store.description["parts"][part]["longest"] + 2
        context = config.model.context
        assert context is not None
        if longest > context:
            raise ConfigError(
                f"A sentence of {store.folder} has {longest} subwords with BOS and EOS, but the "
                f"context length of the model is {context}. Set model.max_positions={longest}, or "
                f"prepare the data with --max-tokens {context - 2}."
            )
        return super().dataset(store, part, config, seed)

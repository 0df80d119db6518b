"""Tagging: sentences of words, a label for each word.

L = - sum_i log p(y_i | x), or - log p(y | x) with a CRF
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from torch import Tensor

from regard.data.batch import Batch
from regard.data.content import TAGGED
from regard.data.file_options import TaggedFiles
from regard.data.labelled import Collate, LabelledDataset, TaggedCollate
from regard.data.loader import Dataset
from regard.data.pairs import recutters
from regard.data.spelling import Speller
from regard.data.store import Store
from regard.errors import ConfigError
from regard.evaluation.options import TaggedOptions
from regard.models.base import Model, ModelConfig
from regard.models.folder import Training
from regard.models.labelling import LabelModel, LabelPredictions
from regard.models.protocol import Predictions
from regard.models.tagger import TaggerConfig
from regard.tasks.base import Task
from regard.tasks.pipelines import Tagger
from regard.training.config import RunConfig
from regard.training.losses import Loss, crf_loss
from regard.training.objective import Objective


class Labelling(Task):
    """What tagging and classification have in common."""

    metrics = ("accuracy",)
    resegments = True

    def data_statistics(self, config: ModelConfig, store: Store) -> Training:
        """The column that the labels were read from."""
        assert config.context is not None
        column = store.description["parts"]["train"].get("column")
        return Training(config.context, 1.0, column, self.texts_per_example(store))

    def texts_per_example(self, store: Store) -> int:
        """Texts that have one label together."""
        return 1

    def collate(self, store: Store, config: RunConfig) -> Collate:
        """What makes batches of examples."""
        raise NotImplementedError

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """Examples."""
        return LabelledDataset(
            store.labelled(part),
            self.collate(store, config),
            special_tokens=1 + self.texts_per_example(store),
            seed=seed,
            recutter=next(iter(recutters(store, config.data)), None),
        )

    def new_objective(self, model: Model, config: RunConfig) -> Objective:
        """Cross-entropy, or a CRF."""
        return LabelObjective(config.training)

    def measured(self, model: Model, predictions: Any, batch: Any) -> Mapping[str, Tensor]:
        """How many labels are right."""
        chosen = cast(LabelModel, model).chosen(predictions)
        return {"accuracy": (chosen == predictions.targets).sum()}


class LabelObjective(Objective):
    """Cross-entropy of labels; with a CRF, of the labels of a sentence together."""

    def loss(self, predictions: Predictions, batch: Batch) -> Loss:
        """The loss of predictions."""
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
        """A CRF has a loss of its own."""
        yield from super().problems(config)
        if not cast(TaggerConfig, config.model).crf:
            return
        for setting in ("label_smoothing", "r_drop"):
            if getattr(config.training, setting):
                yield (
                    f"training.{setting} is for labels that are chosen one by one, and model.crf "
                    f"chooses them together; set training.{setting}=0"
                )

    def collate(self, store: Store, config: RunConfig) -> Collate:
        """Sentences of words, which may be spelled."""
        model = cast(TaggerConfig, config.model)
        speller = Speller(store.tokenizers.source) if model.characters else None
        return TaggedCollate(model.start_mark, speller)

    def dataset(self, store: Store, part: str, config: RunConfig, seed: int) -> Dataset:
        """Sentences that the model could not read are refused."""
        longest = store.description["parts"][part]["longest"] + 2
        context = config.model.context
        assert context is not None
        if longest > context:
            raise ConfigError(
                f"A sentence of {store.folder} has {longest} subwords with BOS and EOS, and the "
                f"model reads {context} at once. Set model.max_positions={longest}, or prepare "
                f"with --max-tokens {context - 2}."
            )
        return super().dataset(store, part, config, seed)

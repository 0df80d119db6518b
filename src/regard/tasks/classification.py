"""Classification: a label for a text or a pair of texts.

L = - log p(y | x)
"""

from __future__ import annotations

from typing import cast

from regard.data.content import LABELLED
from regard.data.file_options import LabelledFiles
from regard.data.labelled import ClassifiedCollate, Collate
from regard.data.store import Store
from regard.evaluation.options import LabelledOptions
from regard.models.classifier import ClassifierConfig
from regard.tasks.pipelines import Classifier
from regard.tasks.tagging import Labelling
from regard.training.config import RunConfig


class Classification(Labelling):
    """A label for each text."""

    name = "classification"
    content = LABELLED
    files = LabelledFiles
    evaluation = LabelledOptions
    pipeline = Classifier
    usage = "regard classify {} < your.txt"

    def texts_per_example(self, store: Store) -> int:
        """1, or 2 for pairs of texts."""
        return int(store.description["parts"]["train"]["most_texts"])

    def collate(self, store: Store, config: RunConfig) -> Collate:
        """The collate function, which truncates texts to the maximum length of the model."""
        model = cast(ClassifierConfig, config.model)
        return ClassifiedCollate(model.decoder_start_id, model.max_positions)

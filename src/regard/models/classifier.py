"""A classifier: one label for a text or for two, from a stack that sees all of it.

    hidden = Stack(E[start, text, end, (text, end)] + P + S)
    p(y | x) = softmax(W f(pooled hidden) + b)        pooled: the mean, or the first token

BERT's own form (Devlin et al., 2019, arXiv:1810.04805): `pooling=first`, `tanh_layer=true`, where
f(v) = tanh(V v); without that layer f(v) = v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.batch import Batch
from regard.layers.init import initialize
from regard.layers.pooling import pool_words
from regard.models.labelling import LabelConfig, LabelModel
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class ClassifierConfig(LabelConfig):
    """The shape of a classifier."""

    task = "classification"
    kind: Annotated[Literal["classifier"], Doc("which model")] = "classifier"
    pooling: Annotated[
        Literal["mean", "first"], Doc("what a text is made of: all its tokens, or the start mark")
    ] = "mean"
    tanh_layer: Annotated[bool, Doc("a layer with tanh before the scores, as BERT has")] = False


class ClassifierModel(LabelModel):
    """A stack, a row made of its tokens, and scores of labels."""

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.dense = Linear(config.width, config.width) if config.tanh_layer else None
        initialize(self, config.init)

    def states(self, batch: Batch, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each row. (B, D)"""
        tokens = self.read(batch.source, record=record)
        rows = pool_words(tokens, batch.source.lengths, self.config.pooling)
        return rows if self.dense is None else self.dense(rows).tanh()

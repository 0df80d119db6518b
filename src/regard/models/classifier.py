"""A classifier of texts or text pairs.

    hidden = Stack(E[BOS, text, EOS, (text, EOS)] + P + S)
    p(y | x) = softmax(W f(pooled hidden) + b)        pooled: the mean, or the first token

BERT (Devlin et al., 2019, arXiv:1810.04805): `pooling=first` and a tanh layer f(v) = tanh(V v);
without that layer f(v) = v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecorder
from regard.config import Doc
from regard.data.batch import Batch
from regard.layers.init import initialize
from regard.layers.pooling import pool_subwords
from regard.models.labelling import LabelConfig, LabelModel
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class ClassifierConfig(LabelConfig):
    """Settings of a classifier."""

    task = "classification"
    kind: Annotated[Literal["classifier"], Doc("model architecture")] = "classifier"
    pooling: Annotated[
        Literal["mean", "first"],
        Doc("representation of a text: mean of its tokens, or first token (BOS)"),
    ] = "mean"
    tanh_layer: Annotated[bool, Doc("tanh layer before the label projection, as in BERT")] = False


class ClassifierModel(LabelModel):
    """A classifier of texts or text pairs."""

    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.dense = Linear(config.d_model, config.d_model) if config.tanh_layer else None
        initialize(self, config.init)

    def states(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Tensor:
        """The pooled hidden state of each row. (B, D)"""
        tokens = self.hidden_states(batch.source, recorder=recorder)
        rows = pool_subwords(tokens, batch.source.lengths, self.config.pooling)
        return rows if self.dense is None else self.dense(rows).tanh()

"""Base class of taggers and classifiers: a bidirectional stack and a projection to labels.

Label ids start at 1: as in other vocabularies 0 is padding, which losses ignore and models never
predict.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecorder
from regard.bounds import LENGTH, Ge, Le
from regard.config import Doc, Tree
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.errors import ConfigError
from regard.layers.crf import Crf
from regard.layers.dropout import Dropout
from regard.layers.embedding import Projection
from regard.models.base import ModelConfig
from regard.models.language import LanguageConfig, LanguageModel, NumSegments
from regard.models.protocol import Predictions, Vocabulary
from regard.settings_tree import to_tree
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class LabelConfig(LanguageConfig):
    """Settings of a stack with a label head."""

    autoregressive = False
    predicts_labels = True
    reusable_encoder = True
    tied_embeddings: Annotated[
        Literal["none"], Doc("the label projection is not tied to the embeddings")
    ] = "none"
    output_bias: Annotated[bool, Doc("bias in the label projection")] = True
    max_positions: Annotated[
        int, Doc("maximum length in tokens; longer texts are truncated or split"), Ge(1), LENGTH
    ] = 512
    num_segments: NumSegments = 0
    head_dropout: Annotated[
        float | None,
        Doc("dropout before the label projection; default: as dropout"),
        Ge(0),
        Le(0.99),
    ] = None

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """Words and labels have no fixed shape."""
        return "batches of words and labels have no fixed shape"


_HEAD = ("kind", "tied_embeddings", "output_bias")


def encoder_settings(config: ModelConfig) -> Tree:
    """The settings of a model's encoder, for a model of another kind with the same encoder."""
    names = {field.name for field in fields(LanguageConfig)} | {"num_segments"}
    return {n: value for n, value in to_tree(config).items() if n in names and n not in _HEAD}


@dataclass(frozen=True, kw_only=True)
class LabelPredictions(Predictions):
    """Predictions of labels, with a CRF if there is one."""

    chain: Crf | None = None


class LabelModel(LanguageModel):
    """A bidirectional stack with a label head."""

    config: LabelConfig

    def __init__(self, config: LabelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False, segments=config.num_segments)
        if not vocabulary.labels:
            raise ConfigError(
                f"Model kind {config.kind!r} requires labels, but the data has none. Prepare the "
                "data with --tagged or --labelled."
            )
        dropout = config.dropout if config.head_dropout is None else config.head_dropout
        self.head_dropout = Dropout(dropout)
        scores = nn.Embedding(1 + len(vocabulary.labels), config.d_model)
        self.projection = Projection(scores.weight, bias=config.output_bias)
        self.chain: Crf | None = None

    @torch.no_grad()
    def shrink_label_projection(self) -> None:
        """Scale down the label projection, so that training starts with similar probabilities."""
        self.projection.weight.mul_(0.1)

    @abstractmethod
    def states(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Tensor:
        """The hidden state of each label. (labels, D)"""

    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> LabelPredictions:
        """Hidden states of all labels."""
        hidden = self.head_dropout(self.states(batch, recorder))
        targets = batch.target
        return LabelPredictions(
            hidden, targets.tokens, self.projection, targets.lengths, chain=self.chain
        )

    def scores(self, predictions: Predictions) -> Tensor:
        """The logits of all labels without padding. (labels, L)"""
        return self.projection(predictions.hidden)[:, 1:].float()

    def probabilities(self, predictions: LabelPredictions) -> Tensor:
        """The probabilities of all labels without padding. (labels, L)"""
        scores, chain, lengths = self.scores(predictions), predictions.chain, predictions.lengths
        if chain is None or lengths is None:
            return scores.softmax(-1)
        return chain.marginals(scores, lengths)

    def predict_labels(self, predictions: LabelPredictions) -> Tensor:
        """The ids of the predicted labels, from 1. (labels,)"""
        scores, chain, lengths = self.scores(predictions), predictions.chain, predictions.lengths
        if chain is None or lengths is None:
            return scores.argmax(-1) + 1
        return chain.best_paths(scores, lengths) + 1

    def embed(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The embeddings of all tokens, with segment embeddings if there are any. (N, D)"""
        return super().embed(
            text, compute_segment_ids(text) if self.config.num_segments > 1 else None
        )


def compute_segment_ids(text: Ragged) -> Tensor:
    """Segment ids: 0 up to the first EOS of each row, 1 after it. (N,)"""
    ends = (text.tokens == SPECIAL.eos).long()
    before = ends.cumsum(0) - ends  # the number of EOS tokens before each token
    first = before[text.lengths.offsets[:-1].long()]
    return (before - first[text.lengths.sentence]).clamp(max=1)


def inner_positions(lengths: Lengths) -> Tensor:
    """The indices of all tokens except the first and the last of each row. (N - 2B,)"""
    inner = lengths.extended(-2)
    indices: Tensor = torch.arange(inner.total, device=lengths.lengths.device)
    return indices + 2 * inner.sentence + 1

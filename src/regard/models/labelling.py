"""What models that give labels have in common: one stack that sees all, and scores of labels.

Labels are words of a small vocabulary of their own. As in every other, 0 is no word: no target that
counts is 0, so all losses take labels as they take words, and nobody is ever given the label 0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecord
from regard.bounds import LENGTH, Ge, Le
from regard.config import Doc, Tree, as_tree
from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.errors import ConfigError
from regard.layers.crf import Crf
from regard.layers.dropout import Dropout
from regard.layers.embedding import Projection
from regard.models.base import ModelConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions, Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class LabelConfig(LanguageConfig):
    """The shape of a stack under a layer that scores labels."""

    autoregressive = False
    gives_labels = True
    shares_stack = True
    tied_embeddings: Annotated[Literal["none"], Doc("labels have vectors of their own")] = "none"
    output_bias: Annotated[bool, Doc("a bias for each label")] = True
    max_positions: Annotated[
        int, Doc("tokens that are read at once; what is longer is cut"), Ge(1), LENGTH
    ] = 512
    segments: Annotated[
        int, Doc("vectors that tell two texts apart, as BERT has; 0: none"), Ge(0), Le(1000)
    ] = 0
    head_dropout: Annotated[
        float | None, Doc("before labels are scored; unset: as `dropout`"), Ge(0), Le(0.99)
    ] = None

    @property
    def obstacle_to_capture(self) -> str | None:
        """The number of words has no fixed shape."""
        return "words and labels are not filled up to a shape"


_HEAD = ("kind", "tied_embeddings", "output_bias")


def stack_settings(config: ModelConfig) -> Tree:
    """The settings of a model's stack, for another kind to have it under a head of its own."""
    names = {field.name for field in fields(LanguageConfig)} | {"segments"}
    return {n: value for n, value in as_tree(config).items() if n in names and n not in _HEAD}


@dataclass(frozen=True, kw_only=True)
class LabelPredictions(Predictions):
    """Predictions of labels; with a CRF, those of a sentence are chosen together."""

    chain: Crf | None = None


class LabelModel(LanguageModel):
    """A stack whose states, one for each thing that has a label, become scores of labels."""

    config: LabelConfig

    def __init__(self, config: LabelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False, segments=config.segments)
        if not vocabulary.labels:
            raise ConfigError(f"A {config.kind} model needs labels, and these data have none.")
        dropout = config.dropout if config.head_dropout is None else config.head_dropout
        self.head_dropout = Dropout(dropout)
        scores = nn.Embedding(1 + len(vocabulary.labels), config.width)
        self.projection = Projection(scores.weight, bias=config.output_bias)
        self.chain: Crf | None = None  # chooses the labels of a row together

    @torch.no_grad()
    def begin_unsure(self) -> None:
        """Let labels be about as likely as each other, however loud a trained stack speaks."""
        self.projection.weight.mul_(0.1)

    @abstractmethod
    def states(self, batch: Batch, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each label that is wanted. (labels, D)"""

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> LabelPredictions:
        """Hidden states for all labels, each knowing the whole row."""
        hidden = self.head_dropout(self.states(batch, record))
        targets = batch.target
        return LabelPredictions(
            hidden, targets.tokens, self.projection, targets.lengths, chain=self.chain
        )

    def scores(self, predictions: Predictions) -> Tensor:
        """The scores of all labels but 0. (labels, L)"""
        return self.projection(predictions.hidden)[:, 1:].float()

    def probabilities(self, predictions: LabelPredictions) -> Tensor:
        """How likely each label is, 0 left out. (labels, L)"""
        scores, chain, lengths = self.scores(predictions), predictions.chain, predictions.lengths
        if chain is None or lengths is None:
            return scores.softmax(-1)
        return chain.marginals(scores, lengths)

    def chosen(self, predictions: LabelPredictions) -> Tensor:
        """The labels that it gives, numbered from 1. (labels,)"""
        scores, chain, lengths = self.scores(predictions), predictions.chain, predictions.lengths
        if chain is None or lengths is None:
            return scores.argmax(-1) + 1
        return chain.best_paths(scores, lengths) + 1

    def embedded(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """What the stack reads, where two texts of a row can be told apart. (N, D)"""
        return super().embedded(text, segments_of(text) if self.config.segments > 1 else None)


def segments_of(text: Ragged) -> Tensor:
    """0 up to the first end mark of each row, and 1 after it. (N,)"""
    ends = (text.tokens == SPECIAL.end).long()
    before = ends.cumsum(0) - ends  # end marks that stand before a token
    first = before[text.lengths.offsets[:-1].long()]
    return (before - first[text.lengths.sentence]).clamp(max=1)


def inner_places(lengths: Lengths) -> Tensor:
    """Where the tokens between the first and the last of each row stand. (N - 2B,)"""
    inner = lengths.longer(-2)
    places: Tensor = torch.arange(inner.total, device=lengths.lengths.device)
    return places + 2 * inner.sentence + 1

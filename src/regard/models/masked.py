"""A masked language model: BERT (Devlin et al., 2019, arXiv:1810.04805) and RoBERTa (2019).

    hidden = Stack(norm(E[x with some words hidden] + P + S))        each token sees all others
    p(x_t | the rest) = softmax(norm(gelu(W hidden_t)) E_o^T + b)    for hidden words t

BERT's own form: `activation=gelu`, `positions=learned`, `scale_embedding=false`,
`norm_epsilon=1e-12`, `segments=2`, `next_sentence=true`; RoBERTa's: `norm_epsilon=1e-5`, and
`segments=1`, a vector that all tokens share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecord
from regard.bounds import IDS, Ge, Le
from regard.config import Doc
from regard.data.batch import Batch, SentencePairBatch
from regard.data.ragged import Ragged
from regard.layers.feedforward import ACTIVATIONS, Activation
from regard.layers.init import initialize
from regard.layers.norm import NormKind, make_norm
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Classes, Predictions, Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class MaskedConfig(LanguageConfig):
    """The shape of a masked language model."""

    task = "masked_language_modeling"
    autoregressive = False
    embeds_text = True
    shares_stack = True
    kind: Annotated[Literal["masked"], Doc("which model")] = "masked"
    embedding_norm: Annotated[bool, Doc("a norm over embeddings, as BERT has")] = True
    output_bias: Annotated[bool, Doc("a bias for each word of the output")] = True
    segments: Annotated[
        int, Doc("vectors that tell the pieces of a row apart; 0: none"), Ge(0), Le(1000)
    ] = 0
    head: Annotated[bool, Doc("a layer of its own before the scores of words")] = True
    head_activation: Annotated[Activation, Doc("in that layer")] = "gelu"
    next_sentence: Annotated[
        bool, Doc("rows of two pieces, and whether the second follows the first is learned, too")
    ] = False
    pooler: Annotated[
        bool,
        Doc("BERT's layer over the first token, kept for export; only next_sentence trains one"),
    ] = False
    mask_id: Annotated[
        int,
        Doc("the id of a hidden word; 1 is the mark of unknown text, which bytes leave unused"),
        Ge(0),
        IDS,
    ] = SPECIAL.unknown

    def problems(self) -> Iterator[str]:
        """Two pieces must be told apart."""
        yield from super().problems()
        if self.next_sentence and self.segments < 2:
            yield "next_sentence has rows of two pieces, and needs segments=2 to tell them apart"
        if self.next_sentence and self.pooler:
            yield "next_sentence has a pooler of its own; leave pooler=false"
        if self.attention.estimator == "reinforce":
            yield "attention.estimator is reinforce, which needs words in order; take another"

    @property
    def obstacle_to_capture(self) -> str | None:
        """What fills a shape is no masked token, but it would be a row."""
        if self.next_sentence:
            return "next_sentence would count rows that only fill a shape"
        return super().obstacle_to_capture

    @property
    def obstacle_to_sharding(self) -> str | None:
        """The next-sentence term is a mean over the rows of a batch."""
        if not self.next_sentence:
            return super().obstacle_to_sharding
        return (
            "model.next_sentence is a mean over the rows of whole batches, and each of several "
            "processes has a shard of them. Train with one process, or without next_sentence, as "
            "RoBERTa is."
        )


@dataclass(frozen=True, kw_only=True)
class SentencePairPredictions(Predictions):
    """Predictions of masked tokens, and of whether the second segment follows the first."""

    next_sentence: Classes  # of whole rows


class MaskedHead(nn.Module):
    """`norm(f(W x))`: what BERT does before it scores words."""

    def __init__(
        self, width: int, activation: Activation, norm: NormKind, epsilon: float | None
    ) -> None:
        super().__init__()
        self.dense = Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = make_norm(norm, width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """X (N, D) -> (N, D)"""
        return self.norm(self.activation(self.dense(x)))


class StoredPooler(nn.Module):
    """The weights of BERT's pooler, which no objective of a masked model reads or trains."""

    weight: Tensor
    bias: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(width, width))
        self.register_buffer("bias", torch.zeros(width))


class NextSentence(nn.Module):
    """`W tanh(V x)` of the first token of a row: does its second piece follow the first?"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooler = Linear(width, width)
        self.classify = Linear(width, 2)

    def forward(self, first: Tensor) -> Tensor:
        """First tokens (B, D) -> logits (B, 2): it follows, it is a stranger"""
        return self.classify(self.pooler(first).tanh())


class Masked(LanguageModel):
    """A stack that sees all, and finds what is hidden."""

    config: MaskedConfig

    def __init__(self, config: MaskedConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False, segments=config.segments)
        self.head = (
            MaskedHead(config.width, config.head_activation, config.norm, config.norm_epsilon)
            if config.head
            else nn.Identity()
        )
        self.next_sentence = NextSentence(config.width) if config.next_sentence else None
        self.pooler = StoredPooler(config.width) if config.pooler else None
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states of all masked tokens, each with all other tokens as its context."""
        pairs = batch if isinstance(batch, SentencePairBatch) else None
        hidden = self.read(batch.source, pairs.segments if pairs else None, record=record)
        asked = batch.asked
        predicted = self.head(hidden[asked]), batch.target.tokens[asked], self.projection
        if self.next_sentence is None or pairs is None:
            return Predictions(*predicted)
        first = hidden[batch.source.lengths.offsets[:-1].long()]
        said = Classes(self.next_sentence(first), pairs.next_sentence_labels)
        return SentencePairPredictions(*predicted, next_sentence=said)

    def logits(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The scores of all words at each place. (N, V)"""
        return self.projection(self.head(self.read(text, segments)))

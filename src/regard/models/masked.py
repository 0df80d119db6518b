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
from regard.data.ragged import Batch, Ragged
from regard.data.text_rows import TextTask
from regard.layers.feedforward import ACTIVATIONS, Activation
from regard.layers.init import initialize
from regard.layers.norm import NormKind, make_norm
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Classes, Predictions, Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class MaskedConfig(LanguageConfig):
    """The shape of a masked language model."""

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
    def task(self) -> TextTask:
        """To find what is hidden."""
        return TextTask(
            "masked",
            self.max_positions,
            self.start_mark,
            mask=self.mask_id,
            doubles=self.next_sentence,
        )

    @property
    def obstacle_to_replay(self) -> str | None:
        """What fills a shape is no word to be found, but it would be a row."""
        if self.next_sentence:
            return "next_sentence would judge rows that only fill a shape"
        return super().obstacle_to_replay

    @property
    def obstacle_to_sharing(self) -> str | None:
        """What is said of rows is a mean over those of a batch."""
        if not self.next_sentence:
            return super().obstacle_to_sharing
        return (
            "model.next_sentence judges the rows of whole batches, and several processes have a "
            "share of each. Train with one process, or without next_sentence, as RoBERTa is."
        )


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
        """Hidden states for all words that should be found, each knowing all the others."""
        doubles = batch.doubles
        hidden = self.read(batch.source, doubles.segments if doubles else None, record)
        sentences = None
        if self.next_sentence is not None and doubles is not None:
            first = hidden[batch.source.lengths.offsets[:-1].long()]
            sentences = Classes(self.next_sentence(first), doubles.strange)
        asked = batch.asked
        hidden, targets = self.head(hidden[asked]), batch.target.tokens[asked]
        return Predictions(hidden, targets, self.projection, sentences=sentences)

    def read(
        self,
        text: Ragged,
        segments: Tensor | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """A vector for each token. (N, D)"""
        lengths = text.lengths
        x = self.embedding(text.tokens, lengths.positions, lengths.longest, segments)
        return self.encoder(x, lengths, record)

    def logits(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The scores of all words at each place. (N, V)"""
        return self.projection(self.head(self.read(text, segments)))

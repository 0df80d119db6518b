"""Masked language model: BERT (Devlin et al., 2019, arXiv:1810.04805) and RoBERTa (2019).

    hidden = Stack(norm(E[x with masked tokens] + P + S))            bidirectional
    p(x_t | the rest) = softmax(norm(gelu(W hidden_t)) E_o^T + b)    for masked tokens t

BERT: `activation=gelu`, `positional_encoding=learned`, `scale_embedding=false`, `norm_eps=1e-12`,
`num_segments=2`, `next_sentence=true`; RoBERTa: `norm_eps=1e-5` and `num_segments=1`, a vector that
all tokens share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecorder
from regard.bounds import IDS, Ge
from regard.config import Doc
from regard.data.batch import Batch, SentencePairBatch
from regard.data.ragged import Ragged
from regard.layers.feedforward import ACTIVATIONS, Activation
from regard.layers.init import initialize
from regard.layers.norm import NormKind, make_norm
from regard.models.language import LanguageConfig, LanguageModel, NumSegments
from regard.models.protocol import ClassLogits, Predictions, Vocabulary
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class MaskedConfig(LanguageConfig):
    """Settings of a masked language model."""

    task = "masked_language_modeling"
    autoregressive = False
    embeds_text = True
    reusable_encoder = True
    kind: Annotated[Literal["masked"], Doc("model architecture")] = "masked"
    embedding_norm: Annotated[bool, Doc("normalize embeddings, as BERT does")] = True
    output_bias: Annotated[bool, Doc("bias in the output projection")] = True
    num_segments: NumSegments = 0
    head: Annotated[bool, Doc("BERT's transform layer before the output projection")] = True
    head_activation: Annotated[Activation, Doc("activation of the transform layer")] = "gelu"
    next_sentence: Annotated[bool, Doc("next-sentence prediction, with rows of two segments")] = (
        False
    )
    pooler: Annotated[
        bool,
        Doc("store BERT's pooler for export; only next_sentence trains one"),
    ] = False
    mask_id: Annotated[
        int,
        Doc("id of MASK; 1 is UNK, which is unused with byte fallback"),
        Ge(0),
        IDS,
    ] = SPECIAL.unk

    def problems(self) -> Iterator[str]:
        """Settings that contradict each other."""
        yield from super().problems()
        if self.next_sentence and self.num_segments < 2:
            yield "next_sentence=true requires num_segments=2"
        if self.next_sentence and self.pooler:
            yield "next_sentence=true includes a pooler; set pooler=false"
        if self.attention.estimator == "reinforce":
            yield (
                "attention.estimator=reinforce is not supported; "
                "set attention.estimator=straight_through"
            )

    @property
    def cuda_graphs_unsupported_reason(self) -> str | None:
        """Filler has no masked tokens, but it would be a row of next-sentence prediction."""
        if self.next_sentence:
            return "next_sentence would include filler rows"
        return super().cuda_graphs_unsupported_reason

    @property
    def distributed_unsupported_reason(self) -> str | None:
        """The next-sentence term is a mean over the rows of a batch."""
        if not self.next_sentence:
            return super().distributed_unsupported_reason
        return (
            "model.next_sentence=true is not supported with several processes: its loss is a mean "
            "over the rows of a whole batch. Train with one process, or set "
            "model.next_sentence=false, as RoBERTa does."
        )


@dataclass(frozen=True, kw_only=True)
class SentencePairPredictions(Predictions):
    """Predictions of masked tokens, and of whether the second segment follows the first."""

    next_sentence: ClassLogits  # of whole rows


class MaskedHead(nn.Module):
    """BERT's transform layer before the output projection: `norm(f(W x))`."""

    def __init__(
        self, d_model: int, activation: Activation, norm: NormKind, epsilon: float | None
    ) -> None:
        super().__init__()
        self.dense = Linear(d_model, d_model)
        self.activation = ACTIVATIONS[activation]
        self.norm = make_norm(norm, d_model, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """X (N, D) -> (N, D)"""
        return self.norm(self.activation(self.dense(x)))


class StoredPooler(nn.Module):
    """The weights of BERT's pooler, which are stored for export and not trained."""

    weight: Tensor
    bias: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(d_model, d_model))
        self.register_buffer("bias", torch.zeros(d_model))


class NextSentence(nn.Module):
    """Next-sentence prediction from the first token of a row: `W tanh(V x)`."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.pooler = Linear(d_model, d_model)
        self.classify = Linear(d_model, 2)

    def forward(self, first: Tensor) -> Tensor:
        """First tokens (B, D) -> logits (B, 2): next sentence, random sentence"""
        return self.classify(self.pooler(first).tanh())


class Masked(LanguageModel):
    """A masked language model."""

    config: MaskedConfig

    def __init__(self, config: MaskedConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=False, segments=config.num_segments)
        self.head = (
            MaskedHead(config.d_model, config.head_activation, config.norm, config.norm_eps)
            if config.head
            else nn.Identity()
        )
        self.next_sentence = NextSentence(config.d_model) if config.next_sentence else None
        self.pooler = StoredPooler(config.d_model) if config.pooler else None
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Predictions:
        """Hidden states of all masked tokens."""
        pairs = batch if isinstance(batch, SentencePairBatch) else None
        segments = pairs.segments if pairs else None
        hidden = self.hidden_states(batch.source, segments, recorder=recorder)
        positions = batch.target_positions
        masked = self.head(hidden[positions]), batch.target.tokens[positions], self.projection
        if self.next_sentence is None or pairs is None:
            return Predictions(*masked)
        first = hidden[batch.source.lengths.offsets[:-1].long()]
        logits = ClassLogits(self.next_sentence(first), pairs.next_sentence_labels)
        return SentencePairPredictions(*masked, next_sentence=logits)

    def logits(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The logits of all positions. (N, V)"""
        return self.projection(self.head(self.hidden_states(text, segments)))

"""Non-autoregressive translation (Gu et al., 2018, arXiv:1711.02281): all tokens in parallel.

    encoder_output = Encoder(E_s[x] sqrt(D) + P)
    f_s ~ softmax(encoder_output_s W_f)                          the fertility of each source token
    hidden = Decoder(E_s[x copied f_s times each] sqrt(D) + P, encoder_output)
    p(y_t | f, x) = softmax(hidden_t E_o^T)

Tokens are conditionally independent given the fertilities. With `length_prediction=ctc` (Libovicky
and Helcl, 2018, arXiv:1811.04719) every token is copied `copies` times instead, and the output is
collapsed as in CTC.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecorder
from regard.bounds import Ge, Le
from regard.config import Doc, Formerly
from regard.data.batch import Batch, FertilityBatch
from regard.data.model_text import DecodingFamily
from regard.data.ragged import Lengths, Ragged
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.init import initialize
from regard.models.base import PairModel
from regard.models.protocol import ClassLogits, Predictions, Vocabulary
from regard.models.stacks import StackConfig, block_shape
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class NonAutoregressiveConfig(StackConfig):
    """Settings of a non-autoregressive model."""

    task = "nonautoregressive_translation"
    autoregressive = False
    kind: Annotated[Literal["nonautoregressive"], Doc("model architecture")] = "nonautoregressive"
    length_prediction: Annotated[
        Literal["fertility", "ctc"],
        Doc(
            "target length: predicted fertilities of source tokens, or CTC with `copies` positions "
            "per source token"
        ),
        Formerly("lengths"),
    ] = "fertility"
    copies: Annotated[int, Doc("ctc: decoder positions per source token"), Ge(1), Le(100)] = 2
    max_fertility: Annotated[
        int, Doc("fertility: maximum fertility of a source token"), Ge(1), Le(255)
    ] = 20
    positional_attention: Annotated[
        bool, Doc("positional attention in decoder blocks, as Gu et al. (2018)")
    ] = True
    self_attention_mask: Annotated[
        Literal["none", "diagonal"],
        Doc(
            "decoder self-attention: to all positions (none), or to all but the position itself "
            "(diagonal), as Gu et al. (2018)"
        ),
    ] = "diagonal"

    @property
    def decoding_family(self) -> DecodingFamily:
        """With CTC or with fertilities."""
        return "ctc" if self.length_prediction == "ctc" else "fertilities"

    def problems(self) -> Iterator[str]:
        """REINFORCE is not implemented for parallel decoding."""
        yield from super().problems()
        if self.attention.estimator == "reinforce":
            yield (
                "attention.estimator=reinforce is not supported; "
                "set attention.estimator=straight_through"
            )

    @property
    def needs_fertilities(self) -> bool:
        """Whether training needs fertilities, from alignments."""
        return self.length_prediction == "fertility"

    @property
    def distributed_unsupported_reason(self) -> str | None:
        """An empty shard of a batch has no fertilities."""
        if not self.needs_fertilities:
            return super().distributed_unsupported_reason
        return (
            "model.length_prediction=fertility is not supported with several processes. Train with "
            "one process and larger batches (data.batch_tokens, "
            "training.gradient_accumulation_steps), or set model.length_prediction=ctc."
        )


NO_FERTILITY = -100  # of filler tokens


@dataclass(frozen=True)
class Hints:
    """Glancing: target tokens that replace copies of the source as decoder inputs."""

    tokens: Tensor  # (N,)
    mask: Tensor  # (N,) the replaced positions

    def duplicate(self) -> Hints:
        """The hints of a batch that contains all sentences twice."""
        return Hints(self.tokens.repeat(2), self.mask.repeat(2))


@dataclass(frozen=True, kw_only=True)
class FertilityPredictions(Predictions):
    """Predictions of target tokens and of fertilities."""

    fertilities: ClassLogits  # of each source token: 0, 1, 2 ... target tokens, or `NO_FERTILITY`


@dataclass(frozen=True, kw_only=True)
class CtcPredictions(Predictions):
    """Predictions at the decoder positions of CTC (`layers/ctc.py`)."""

    labels: Lengths  # of the sentences among the targets, EOS included

    def _fits(self) -> bool:
        return True


class NonAutoregressive(PairModel):
    """A non-autoregressive encoder-decoder with fertilities or CTC."""

    config: NonAutoregressiveConfig
    decoder: Decoder

    def __init__(self, config: NonAutoregressiveConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        shape, positional = block_shape(config), config.positional_attention
        self.encoder = Encoder(config.num_encoder_layers, shape)
        self.fertility = (
            nn.Linear(config.d_model, config.max_fertility + 1)
            if config.needs_fertilities
            else None
        )
        self.decoder = Decoder(
            config.num_decoder_layers,
            shape,
            causal=False,
            positional=positional,
            mask_diagonal=config.self_attention_mask == "diagonal",
        )
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self, config.init)

    def forward(
        self, batch: Batch, recorder: AttentionRecorder | None = None, hints: Hints | None = None
    ) -> Predictions:
        """Hidden states of all decoder positions."""
        source, target = batch.source, batch.target
        encoder_output = self.encode(source, recorder)
        if self.fertility is None:
            copies = self.upsample(source)
            hidden = self.decode(copies, encoder_output, source.lengths, recorder, hints)
            return CtcPredictions(
                hidden, target.tokens, self.projection, copies.lengths, labels=target.lengths
            )
        assert isinstance(batch, FertilityBatch)
        target = target.without_eos()
        copies = source.repeat_tokens(batch.fertilities, target.lengths)
        hidden = self.decode(copies, encoder_output, source.lengths, recorder, hints)
        classes = batch.fertilities.clamp(max=self.config.max_fertility)
        classes = classes.masked_fill(source.tokens == SPECIAL.pad, NO_FERTILITY)
        fertilities = ClassLogits(self.fertility(encoder_output), classes)
        return FertilityPredictions(
            hidden, target.tokens, self.projection, target.lengths, fertilities=fertilities
        )

    def upsample(self, source: Ragged) -> Ragged:
        """Each source token `copies` times: the decoder input of CTC."""
        copies = self.config.copies
        tokens = source.tokens[:, None].expand(-1, copies).flatten()
        return Ragged(tokens, source.lengths.scaled(copies))

    def decode(
        self,
        copies: Ragged,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
        hints: Hints | None = None,
    ) -> Tensor:
        """The decoder output of all copies. (N, D)"""
        positions = copies.lengths.positions, copies.lengths.longest
        x = self.source_embedding(copies.tokens, *positions)
        if hints is not None:
            embedded = self.target_embedding(hints.tokens, *positions)
            x = torch.where(hints.mask[:, None], embedded, x)
        return self.decoder(x, copies.lengths, encoder_output, source_lengths, recorder)

    @property
    def scoring_unsupported_reason(self) -> str | None:
        """The probability of a translation is a sum over all fertilities."""
        if self.fertility is None:
            return None
        return (
            "Scores are not available for a model with fertilities: the probability of a "
            "translation is an intractable sum over them. Score it with the model's teacher."
        )

    @property
    def max_length(self) -> int | None:
        """The maximum source length; None: unlimited."""
        limit = super().max_length
        copies = self.config.copies if self.fertility is None else 1
        return None if limit is None else limit // copies


def ensure_one_token(counts: Tensor, lengths: Lengths) -> Tensor:
    """Fertilities with 1 for the first token of sentences whose fertilities are all 0. (..., N)"""
    empty = (lengths.sums(counts) == 0)[..., lengths.sentence]
    return counts + (empty & (lengths.positions == 0))

"""Non-autoregressive translation (Gu et al., 2018, arXiv:1711.02281): all words at once.

    memory = Encoder(E_s[x] sqrt(D) + P)
    f_s ~ softmax(memory_s W_f)                                  the fertility of each source token
    hidden = Decoder(E_s[x copied f_s times each] sqrt(D) + P, memory)
    p(y_t | f, x) = softmax(hidden_t E_o^T)

No word knows the others: each is the likeliest at its place, and what the sentence will be is told
by fertilities alone. With `lengths=ctc` (Libovicky and Helcl, 2018, arXiv:1811.04719) every token
is copied `copies` times instead, and what is written at these places is read as CTC reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from regard.attention.multihead import AttentionRecord
from regard.bounds import Ge, Le
from regard.config import Doc
from regard.data.batch import Batch, FertilityBatch
from regard.data.ragged import Lengths, Ragged
from regard.layers.decoder import Decoder
from regard.layers.encoder import Encoder
from regard.layers.init import initialize
from regard.models.base import PairModel
from regard.models.protocol import Classes, Predictions, Vocabulary
from regard.models.stacks import StackConfig, block_shape
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class NonAutoregressiveConfig(StackConfig):
    """The shape of a model that writes all words at once."""

    task = "nonautoregressive_translation"
    autoregressive = False
    kind: Annotated[Literal["nonautoregressive"], Doc("which model")] = "nonautoregressive"
    lengths: Annotated[
        Literal["fertility", "ctc"],
        Doc(
            "how many words are written: as many for each source token as the model gives it, or "
            "`copies` for each, without the blanks and repetitions among them"
        ),
    ] = "fertility"
    copies: Annotated[int, Doc("ctc: places for each source token"), Ge(1), Le(100)] = 2
    max_fertility: Annotated[
        int, Doc("fertility: the most words that a source token is given"), Ge(1), Le(255)
    ] = 20
    positional_attention: Annotated[
        bool, Doc("decoder blocks also attend by place alone, whatever stands there")
    ] = True
    self_attention_mask: Annotated[
        Literal["none", "diagonal"],
        Doc(
            "decoder self-attention: to all positions (none), or to all but the position itself "
            "(diagonal), as Gu et al. (2018)"
        ),
    ] = "diagonal"

    def problems(self) -> Iterator[str]:
        """What the blocks ask, and that nothing but fertilities is drawn."""
        yield from super().problems()
        if self.attention.estimator == "reinforce":
            yield "attention.estimator is reinforce, which needs a model that writes word by word"

    @property
    def needs_fertilities(self) -> bool:
        """Whether it learns from alignments."""
        return self.lengths == "fertility"

    @property
    def obstacle_to_sharding(self) -> str | None:
        """An empty shard of a batch has no fertilities."""
        if not self.needs_fertilities:
            return super().obstacle_to_sharding
        return (
            "model.lengths=fertility is not supported with several processes. Train it with one, "
            "or set model.lengths=ctc; larger batches (data.batch_tokens, training.accumulate) do "
            "the same."
        )


NO_FERTILITY = -100  # of what only fills a shape


@dataclass(frozen=True)
class Hints:
    """Target tokens that the decoder reads at some positions, instead of copies of the source."""

    tokens: Tensor  # (N,)
    given: Tensor  # (N,) where they are read

    def twice(self) -> Hints:
        """For all sentences, and then for all of them again."""
        return Hints(self.tokens.repeat(2), self.given.repeat(2))


@dataclass(frozen=True, kw_only=True)
class FertilityPredictions(Predictions):
    """Predictions of target tokens and of fertilities."""

    fertilities: Classes  # of each source token: 0, 1, 2 ... target tokens, or `NO_FERTILITY`


@dataclass(frozen=True, kw_only=True)
class CtcPredictions(Predictions):
    """Predictions at more positions than there are targets (`layers/ctc.py`)."""

    labels: Lengths  # of the sentences among the targets, EOS included

    def _fits(self) -> bool:
        return True


class NonAutoregressive(PairModel):
    """Encoder, fertilities or places, and a decoder that sees all of them."""

    config: NonAutoregressiveConfig
    decoder: Decoder

    def __init__(self, config: NonAutoregressiveConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        shape, positional = block_shape(config), config.positional_attention
        self.encoder = Encoder(config.encoder_layers, shape)
        self.fertility = (
            nn.Linear(config.width, config.max_fertility + 1) if config.needs_fertilities else None
        )
        self.decoder = Decoder(
            config.decoder_layers,
            shape,
            causal=False,
            positional=positional,
            mask_diagonal=config.self_attention_mask == "diagonal",
        )
        self.projection = self.new_projection(self.target_embedding.table)
        initialize(self, config.init)

    def forward(
        self, batch: Batch, record: AttentionRecord | None = None, hints: Hints | None = None
    ) -> Predictions:
        """Hidden states for all places, each knowing the source and the other places."""
        source, target = batch.source, batch.target
        memory = self.encode(source, record)
        if self.fertility is None:
            places = self.spread(source)
            hidden = self.decode(places, memory, source.lengths, record, hints)
            return CtcPredictions(
                hidden, target.tokens, self.projection, places.lengths, labels=target.lengths
            )
        assert isinstance(batch, FertilityBatch)
        words = target.without_ends()
        copies = source.copied(batch.fertilities, words.lengths)
        hidden = self.decode(copies, memory, source.lengths, record, hints)
        wanted = batch.fertilities.clamp(max=self.config.max_fertility)
        wanted = wanted.masked_fill(source.tokens == SPECIAL.pad, NO_FERTILITY)
        said = Classes(self.fertility(memory), wanted)
        return FertilityPredictions(
            hidden, words.tokens, self.projection, words.lengths, fertilities=said
        )

    def spread(self, source: Ragged) -> Ragged:
        """Each token as often as CTC has places for it."""
        copies = self.config.copies
        tokens = source.tokens[:, None].expand(-1, copies).flatten()
        return Ragged(tokens, source.lengths.times(copies))

    def decode(
        self,
        copies: Ragged,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
        hints: Hints | None = None,
    ) -> Tensor:
        """A vector for each copy, in sight of all others and of the memory. (N, D)"""
        places = copies.lengths.positions, copies.lengths.longest
        x = self.source_embedding(copies.tokens, *places)
        if hints is not None:
            told = self.target_embedding(hints.tokens, *places)
            x = torch.where(hints.given[:, None], told, x)
        return self.decoder(x, copies.lengths, memory, memory_lengths, record)

    @property
    def obstacle_to_score(self) -> str | None:
        """A translation may have been written under any fertilities."""
        if self.fertility is None:
            return None
        return (
            "The probability of a translation under a model with fertilities is a sum over all of "
            "them, which cannot be computed. Score it with the model's teacher."
        )

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow; None: any."""
        places = super().max_length
        copies = self.config.copies if self.fertility is None else 1
        return None if places is None else places // copies


def never_silent(counts: Tensor, lengths: Lengths) -> Tensor:
    """Fertilities, and a word for the first token of a sentence that would have none. (..., N)"""
    silent = (lengths.sums(counts) == 0)[..., lengths.sentence]
    return counts + (silent & (lengths.positions == 0))

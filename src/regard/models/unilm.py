"""UniLM (Dong et al., 2019, arXiv:1905.03197): one stack that is trained under several masks.

    row    = source end start y_1 .. y_n-1
    hidden = Stack(E[row] + P + S)        under the prefix mask: the source is seen in full by all,
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)          and a target word sees what came before it

With the prefix mask it translates by the same searches as an encoder and a decoder would: what the
source becomes does not depend on the target, so it is computed once, and steps look back at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import Sources, Trail
from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.batch import Batch, PrefixBatch
from regard.data.prefix_rows import ObjectiveMixConfig, as_rows
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.init import initialize
from regard.models.base import AutoregressiveModel
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackState


@dataclass(frozen=True)
class UnilmConfig(LanguageConfig):
    """The shape of a UniLM."""

    task = "prefix_language_modeling"
    kind: Annotated[Literal["unilm"], Doc("which model")] = "unilm"
    masks: ObjectiveMixConfig = field(default_factory=ObjectiveMixConfig)

    def problems(self) -> Iterator[str]:
        """What a row of two sentences cannot have."""
        yield from super().problems()
        if self.positions == "relative":
            yield "positions is relative, which steps after a source do not know; take rotary"
        if self.feedforward == "convolution":
            yield "feedforward is convolution, which would look ahead in a target; take linear"
        if self.attention.estimator == "reinforce":
            yield "attention.estimator is reinforce, which is not for rows of two sentences"
        if not self.masks.prefix:
            yield "masks.prefix is 0, and only with that mask it learns to translate"

    @property
    def context(self) -> int | None:
        """It reads pairs."""
        return None


class Unilm(LanguageModel, AutoregressiveModel):
    """A stack under a mask that is said with each batch."""

    config: UnilmConfig
    pass_can_be_captured = False  # a row of source and target needs the lengths on the host

    def __init__(self, config: UnilmConfig, vocabulary: Vocabulary) -> None:
        if not vocabulary.joint or vocabulary.source != vocabulary.target:
            raise ConfigError(
                "model.kind=unilm reads source and target with one table, but they have separate "
                "vocabularies. Prepare the data with --joint."
            )
        super().__init__(config, vocabulary, causal=True, segments=2)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states wherever something should be written."""
        if not isinstance(batch, PrefixBatch):
            batch = as_rows(batch, self.start_mark)
        row = batch.source.lengths
        # Segments also say which mask it is: all before, all behind, or both.
        segments = (row.positions >= batch.prefixes[row.sentence]).long()
        x = self.embedding.of(batch.source, segments)
        hidden = self.encoder(x, row, record, prefix=batch.prefixes)
        asked = batch.asked
        return Predictions(hidden[asked], batch.target.tokens[asked], self.projection)

    def attention_record(self, batch: Batch) -> AttentionRecord:
        """The attention weights of one pair, taken apart where its source ends."""
        rows, source = super().attention_record(batch).decoder, batch.source.lengths.longest
        return AttentionRecord(
            encoder=[row[..., :source, :source] for row in rows],
            decoder=[row[..., source:, source:] for row in rows],
            cross=[row[..., source:, :source] for row in rows],
        )

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> StackState:
        """The source, read once, and room for so many beams and tokens."""
        lengths = source.lengths
        x = self.embedding.of(source)
        memories = self.encoder.remember(x, lengths, causal=False)
        empty = self.encoder.prepare(len(lengths), beams, room)
        caches = [replace(c, memory=m) for c, m in zip(empty, memories, strict=True)]
        sources = Sources.of(lengths.mask, lengths.lengths, x.dtype)
        trail = Trail.of(len(lengths), beams, room, source.tokens.device)
        return StackState(caches, trail, sources)

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        trail = state.trail
        sight = trail.begin()
        assert state.sources is not None
        places = (state.sources.lengths + trail.place)[:, None].expand(tokens.shape)  # (B, W)
        longest = state.sources.bias.shape[-1] + trail.reach
        longest = min(longest, self.config.places or longest)
        x = self.embedding(tokens, places, longest, tokens.new_ones(tokens.shape))
        x = self.encoder.step(x, state.caches, sight, state.sources, places)
        trail.end()
        return self.projection(x)

    @property
    def max_length(self) -> int | None:
        """The longest sentence that the positions allow: source and target share a row."""
        places = self.config.places
        return None if places is None else places // 2

"""UniLM (Dong et al., 2019, arXiv:1905.03197): one stack trained with several attention masks.

    row    = source EOS BOS y_1 .. y_n-1
    hidden = Stack(E[row] + P + S)        with a prefix mask: the source is visible to all tokens,
    p(y_t | y_<t, x) = softmax(hidden_t E_o^T)          the target is causal

With the prefix mask it decodes like an encoder-decoder: the hidden states of the source do not
depend on the target, so that they are computed once and cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import BeamHistory, SourceMask
from regard.attention.multihead import AttentionRecorder
from regard.config import Doc
from regard.data.batch import Batch, PrefixBatch
from regard.data.prefix_lm import ObjectiveMixConfig, to_prefix_batch
from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.init import initialize
from regard.models.base import AutoregressiveModel
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackState


@dataclass(frozen=True)
class UnilmConfig(LanguageConfig):
    """Settings of a UniLM."""

    task = "prefix_language_modeling"
    kind: Annotated[Literal["unilm"], Doc("model architecture")] = "unilm"
    masks: ObjectiveMixConfig = field(default_factory=ObjectiveMixConfig)

    def problems(self) -> Iterator[str]:
        """Settings that are not supported for rows of source and target."""
        yield from super().problems()
        if self.positional_encoding == "relative":
            yield "positional_encoding=relative is not supported; set positional_encoding=rotary"
        if self.ffn_type == "convolution":
            yield "ffn_type=convolution is not supported: it is not causal; set ffn_type=linear"
        if self.attention.estimator == "reinforce":
            yield (
                "attention.estimator=reinforce is not supported; "
                "set attention.estimator=straight_through"
            )
        if not self.masks.prefix:
            yield "masks.prefix is 0, but must be above 0: translation is trained with that mask"

    @property
    def context(self) -> int | None:
        """None: it is a model of pairs."""
        return None


class Unilm(LanguageModel, AutoregressiveModel):
    """A stack whose attention mask depends on the batch."""

    config: UnilmConfig
    forward_capturable = False  # rows of source and target need the lengths on the host

    def __init__(self, config: UnilmConfig, vocabulary: Vocabulary) -> None:
        if not vocabulary.joint or vocabulary.source != vocabulary.target:
            raise ConfigError(
                "model.kind=unilm requires a joint vocabulary, but source and target have separate "
                "vocabularies. Prepare the data with --joint."
            )
        super().__init__(config, vocabulary, causal=True, segments=2)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Predictions:
        """Hidden states of all predicted tokens."""
        if not isinstance(batch, PrefixBatch):
            batch = to_prefix_batch(batch, self.decoder_start_id)
        row = batch.source.lengths
        # Segments also encode the mask: prefix only, no prefix, or both.
        segments = (row.positions >= batch.prefixes[row.sentence]).long()
        x = self.embedding.embed(batch.source, segments)
        hidden = self.encoder(x, row, recorder, prefix=batch.prefixes)
        positions = batch.target_positions
        return Predictions(hidden[positions], batch.target.tokens[positions], self.projection)

    def record_attention(self, batch: Batch) -> AttentionRecorder:
        """The attention maps of one pair, split at the end of the source."""
        rows, source = super().record_attention(batch).decoder, batch.source.lengths.longest
        return AttentionRecorder(
            encoder=[row[..., :source, :source] for row in rows],
            decoder=[row[..., source:, source:] for row in rows],
            cross=[row[..., source:, :source] for row in rows],
        )

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> StackState:
        """The initial state of a search: the cached source, and empty caches of the target."""
        lengths = source.lengths
        x = self.embedding.embed(source)
        sources = self.encoder.forward_with_cache(x, lengths, causal=False)
        empty = self.encoder.new_caches(len(lengths), beams, capacity)
        caches = [replace(c, source=s) for c, s in zip(empty, sources, strict=True)]
        source_mask = SourceMask.of(lengths.mask, lengths.lengths, x.dtype)
        history = BeamHistory.of(len(lengths), beams, capacity, source.tokens.device)
        return StackState(caches, history, source_mask)

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""
        history, mask = state.history, state.source_mask
        view = history.begin_step()
        assert mask is not None
        positions = (mask.lengths + history.position)[:, None].expand(tokens.shape)  # (B, W)
        longest = mask.bias.shape[-1] + history.length
        longest = min(longest, self.config.position_limit or longest)
        x = self.embedding(tokens, positions, longest, tokens.new_ones(tokens.shape))
        x = self.encoder.step(x, state.caches, view, mask, positions)
        history.end_step()
        return self.projection(x)

    @property
    def max_length(self) -> int | None:
        """The maximum sentence length: source and target share the positions."""
        limit = self.config.position_limit
        return None if limit is None else limit // 2

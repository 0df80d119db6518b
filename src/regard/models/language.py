"""Base classes of language models: one embedding and one stack of Transformer blocks.

Their attention masks and objectives differ: causal (`causal`), causal with segment recurrence
(`xl`), or bidirectional (`masked`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from regard.attention.cache import BeamHistory
from regard.attention.multihead import AttentionRecorder
from regard.bounds import LAYERS, LENGTH, Ge, Le
from regard.config import Doc, Formerly
from regard.data.ragged import Ragged
from regard.layers.block import BlockShape
from regard.layers.embedding import Embedding
from regard.layers.encoder import Encoder
from regard.layers.init import initialize
from regard.models.base import AutoregressiveModel, Model
from regard.models.protocol import Vocabulary
from regard.models.stacks import BlockConfig, StackState, block_shape
from regard.text.special import SPECIAL

NormEpsilon = Annotated[
    float | None, Doc("epsilon of normalization layers; none: PyTorch's default"), Ge(0), Le(1)
]


NumSegments = Annotated[
    int,
    Doc("number of segment embeddings (BERT's token types); 0 disables them"),
    Ge(0),
    Le(1000),
    Formerly("segments"),
]


@dataclass(frozen=True)
class LanguageConfig(BlockConfig):
    """Settings of one stack of Transformer blocks."""

    num_layers: Annotated[int, Doc("number of layers"), Ge(1), LAYERS, Formerly("layers")] = 6
    tied_embeddings: Annotated[
        Literal["all", "decoder", "none"],
        Doc("share the embeddings of input and output (all, decoder), or not (none)"),
    ] = "all"
    max_positions: Annotated[
        int,
        Doc("context length in tokens; longer documents are split"),
        Ge(1),
        LENGTH,
    ] = 256
    embedding_norm: Annotated[bool, Doc("normalize embeddings, as BERT does")] = False
    norm_eps: Annotated[NormEpsilon, Formerly("norm_epsilon")] = None

    @property
    def context(self) -> int | None:
        """The context length."""
        return self.max_positions


class LanguageModel(Model):
    """An embedding and one stack of blocks."""

    config: LanguageConfig

    def __init__(
        self, config: LanguageConfig, vocabulary: Vocabulary, *, causal: bool, segments: int = 0
    ) -> None:
        super().__init__(config, vocabulary)
        shape = block_shape(config, config.norm_eps)
        self.embedding: Embedding = self.new_embedding(self.new_table(vocabulary.target))
        self.embedding.segments = nn.Embedding(segments, config.d_model) if segments else None
        self.embedding.norm = shape.new_norm() if config.embedding_norm else None
        self.encoder = self.new_stack(shape, causal=causal)

    def new_stack(self, shape: BlockShape, *, causal: bool) -> Encoder:
        """A new stack of blocks."""
        return Encoder(self.config.num_layers, shape, causal=causal)

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text between BOS and EOS."""
        return [self.config.decoder_start_id, *ids, SPECIAL.eos]

    def hidden_states(
        self,
        text: Ragged,
        segments: Tensor | None = None,
        *,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """The hidden states of all tokens. (N, D)"""
        return self.encoder(self.embed(text, segments), text.lengths, recorder)

    def embed(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """The embeddings of all tokens. (N, D)"""
        return self.embedding.embed(text, segments)


class CausalLanguageModel(LanguageModel, AutoregressiveModel):
    """A language model that generates from left to right."""

    bare_prompts: bool = False  # no BOS before prompts
    extra_eos_ids: Sequence[int] = ()  # ids that end a generated text as EOS does
    start_capturable = True

    def __init__(self, config: LanguageConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=True)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)
        # Relative positions depend on the number of positions attended to.
        self.step_capturable = config.positional_encoding != "relative"

    @property
    def context(self) -> int:
        """The context length."""
        return self.config.max_positions

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> StackState:
        """The initial state for as many texts as there are sources, whose tokens are not used."""
        sentences = len(source.lengths)
        caches = self.encoder.new_caches(sentences, beams, capacity)
        return StackState(caches, BeamHistory.of(sentences, beams, capacity, source.tokens.device))

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Next-token logits after one token per beam: (B, W) -> (B, W, V); updates the state."""
        history = state.history
        view = history.begin_step()
        length = min(history.length, self.max_length or history.length)
        x = self.embedding(tokens, history.position, length)
        x = self.encoder.step(x, state.caches, view)
        history.end_step()
        return self.projection(x)

    def prefill(self, tokens: Tensor, state: StackState) -> None:
        """Process a prompt that all beams share, without its logits. (B, T)"""
        beams = state.history.beams.shape[1]
        for position, column in enumerate(tokens.unbind(1)):
            state.reserve(position + 1, exact=True)
            self.step(column[:, None].expand(-1, beams), state)

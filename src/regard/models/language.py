"""What models of running text have in common: one stack of blocks, over one table of words.

The same stack is GPT where a token sees what came before (`causal`), Transformer-XL where it also
remembers earlier segments (`xl`), and BERT where it sees all (`masked`). What else differs is what
they are asked in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor, nn

from regard.attention.cache import Trail
from regard.attention.multihead import AttentionRecord
from regard.bounds import LAYERS, LENGTH, Ge, Le
from regard.config import Doc
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
    float | None, Doc("the norms' guard against division by zero; unset: PyTorch's"), Ge(0), Le(1)
]


@dataclass(frozen=True)
class LanguageConfig(BlockConfig):
    """The shape of one stack of attention blocks."""

    layers: Annotated[int, Doc("blocks"), Ge(1), LAYERS] = 6
    tied_embeddings: Annotated[
        Literal["all", "decoder", "none"],
        Doc("one table for input and output (all, decoder), or two tables"),
    ] = "all"
    max_positions: Annotated[
        int,
        Doc("tokens that are read at once; longer documents are cut into pieces"),
        Ge(1),
        LENGTH,
    ] = 256
    embedding_norm: Annotated[bool, Doc("a norm over embeddings, as BERT has")] = False
    norm_epsilon: NormEpsilon = None

    @property
    def context(self) -> int | None:
        """Tokens that are read at once."""
        return self.max_positions


class LanguageModel(Model):
    """A table of words, and one stack of blocks."""

    config: LanguageConfig

    def __init__(
        self, config: LanguageConfig, vocabulary: Vocabulary, *, causal: bool, segments: int = 0
    ) -> None:
        super().__init__(config, vocabulary)
        shape = block_shape(config, config.norm_epsilon)
        self.embedding: Embedding = self.new_embedding(self.new_table(vocabulary.target))
        self.embedding.segments = nn.Embedding(segments, config.width) if segments else None
        self.embedding.norm = shape.new_norm() if config.embedding_norm else None
        self.encoder = self.new_stack(shape, causal=causal)

    def new_stack(self, shape: BlockShape, *, causal: bool) -> Encoder:
        """The blocks."""
        return Encoder(self.config.layers, shape, causal=causal)

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text as it is read: between BOS and EOS."""
        return [self.config.start_mark, *ids, SPECIAL.end]

    def read(
        self,
        text: Ragged,
        segments: Tensor | None = None,
        *,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """A vector for each token. (N, D)"""
        return self.encoder(self.embedded(text, segments), text.lengths, record)

    def embedded(self, text: Ragged, segments: Tensor | None = None) -> Tensor:
        """What the stack reads: a vector for each token. (N, D)"""
        return self.embedding.of(text, segments)


class WritingModel(LanguageModel, AutoregressiveModel):
    """A stack that sees what came before, and so can go on from it token by token."""

    bare_prompts: bool = False  # prompts are read without BOS
    extra_eos_ids: Sequence[int] = ()  # ids that end a generated text as EOS does
    start_can_be_recorded = True

    def __init__(self, config: LanguageConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=True)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)
        self.can_be_recorded = config.positions != "relative"  # distances depend on the reach

    @property
    def context(self) -> int:
        """The longest text that it was trained to see."""
        return self.config.max_positions

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> StackState:
        """A state for as many texts as there are sources; how they begin is the search's to say."""
        sentences = len(source.lengths)
        caches = self.encoder.prepare(sentences, beams, room)
        return StackState(caches, Trail.of(sentences, beams, room, source.tokens.device))

    def step(self, tokens: Tensor, state: StackState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V); the state moves on."""
        trail = state.trail
        sight = trail.begin()
        reach = min(trail.reach, self.max_length or trail.reach)
        x = self.embedding(tokens, trail.place, reach)
        x = self.encoder.step(x, state.caches, sight)
        trail.end()
        return self.projection(x)

    def read_ahead(self, tokens: Tensor, state: StackState) -> None:
        """The steps of some first tokens, which all beams share and nobody scores. (B, T)"""
        beams = state.trail.beams.shape[1]
        for place, column in enumerate(tokens.unbind(1)):
            state.reach(place + 1, exact=True)
            self.step(column[:, None].expand(-1, beams), state)

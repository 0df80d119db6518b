"""A causal language model: GPT (Radford et al., 2018 and 2019), a stack that looks back.

    hidden = Stack(E[x_<t] + P)                 each token sees itself and what came before
    p(x_t | x_<t) = softmax(hidden_t E_o^T)

GPT-2's own form: `norm_order=pre`, `activation=gelu_tanh`, `positions=learned`,
`scale_embedding=false`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.cache import Trail
from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.ragged import Batch, Ragged
from regard.data.text_rows import TextTask
from regard.layers.init import initialize
from regard.models.base import AutoregressiveModel
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackState
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class CausalConfig(LanguageConfig):
    """The shape of a causal language model."""

    kind: Annotated[Literal["causal"], Doc("which model")] = "causal"
    bare_prompts: Annotated[
        bool, Doc("whether prompts are read without a start mark, and not scored, as GPT-2's are")
    ] = False

    @property
    def task(self) -> TextTask:
        """To write what comes next."""
        return TextTask("causal", self.max_positions, int(getattr(SPECIAL, self.start_token)))


class Causal(LanguageModel, AutoregressiveModel):
    """A stack that sees what came before, and words after it."""

    config: CausalConfig

    def __init__(self, config: CausalConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary, causal=True)
        self.projection = self.new_projection(self.embedding.table)
        initialize(self, config.init)

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states for every token, each knowing what came before."""
        record = self.recorder(record)
        hidden = self.read(batch.source, record)
        targets = batch.target
        return Predictions(
            hidden, targets.tokens, self.projection, targets.lengths, self.choices(record)
        )

    def read(self, text: Ragged, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each token. (N, D)"""
        lengths = text.lengths
        x = self.embedding(text.tokens, lengths.positions, lengths.longest)
        return self.encoder(x, lengths, record)

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

    @property
    def can_be_recorded(self) -> bool:
        """Whether steps with a longer reach than needed are the same: all but distances are."""
        return self.config.positions != "relative"

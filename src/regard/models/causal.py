"""A causal language model: GPT (Radford et al., 2018 and 2019), a stack that looks back.

    hidden = Stack(E[x_<t] + P)                 each token sees itself and what came before
    p(x_t | x_<t) = softmax(hidden_t E_o^T)

GPT-2's own form: `norm_order=pre`, `activation=gelu_tanh`, `positions=learned`,
`scale_embedding=false`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.bounds import IDS, Ge
from regard.config import Doc
from regard.data.batch import Batch
from regard.data.ragged import Lengths
from regard.errors import ConfigError
from regard.models.language import LanguageConfig, WritingModel
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackState
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class CausalConfig(LanguageConfig):
    """The shape of a causal language model."""

    task = "language_modeling"
    embeds_text = True
    kind: Annotated[Literal["causal"], Doc("which model")] = "causal"
    bare_prompts: Annotated[
        bool, Doc("whether prompts are read without a start mark, and not scored, as GPT-2's are")
    ] = False

    extra_eos_ids: Annotated[
        tuple[int, ...], Doc("ids that end a generated text as EOS does"), Ge(SPECIAL.end + 1), IDS
    ] = ()


class Causal(WritingModel):
    """A stack that sees what came before, and words after it."""

    config: CausalConfig

    def __init__(self, config: CausalConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.bare_prompts, self.extra_eos_ids = config.bare_prompts, config.extra_eos_ids
        if max(config.extra_eos_ids, default=0) >= vocabulary.target:
            raise ConfigError(
                f"model.extra_eos_ids has {max(config.extra_eos_ids)}, and the vocabulary has "
                f"{vocabulary.target} tokens. Leave it out, or copy the whole model folder again."
            )

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text as it is read: after BOS, unless prompts are read without."""
        return [*ids] if ids and self.bare_prompts else [self.start_mark, *ids]

    def forward(self, batch: Batch, record: AttentionRecord | None = None) -> Predictions:
        """Hidden states for every token, each knowing what came before."""
        record = self.recorder(record)
        hidden = self.read(batch.source, record=record)
        return self.predictions(hidden, batch.target, record)

    def read_ahead(self, tokens: Tensor, state: StackState) -> None:
        """In one pass, unless feed-forward networks have a past of their own. (B, T)"""
        sentences, places = tokens.shape
        if self.config.feedforward == "convolution" or not places:
            return super().read_ahead(tokens, state)
        lengths = Lengths.of([places] * sentences).to(tokens.device)
        x = self.embedding(tokens.flatten(), lengths.positions, places)
        return state.begin_with(self.encoder.remember(x, lengths, causal=True))

"""Causal language model: GPT (Radford et al., 2018 and 2019).

    hidden = Stack(E[x_<t] + P)                 with a causal mask
    p(x_t | x_<t) = softmax(hidden_t E_o^T)

GPT-2: `norm_order=pre`, `activation=gelu_tanh`, `positional_encoding=learned`,
`scale_embedding=false`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.bounds import IDS, Ge
from regard.config import Doc
from regard.data.batch import Batch
from regard.data.ragged import Lengths
from regard.errors import ConfigError
from regard.models.language import CausalLanguageModel, LanguageConfig
from regard.models.protocol import Predictions, Vocabulary
from regard.models.stacks import StackState
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class CausalConfig(LanguageConfig):
    """Settings of a causal language model."""

    task = "language_modeling"
    embeds_text = True
    kind: Annotated[Literal["causal"], Doc("model architecture")] = "causal"
    bare_prompts: Annotated[
        bool, Doc("do not prepend BOS to prompts, as GPT-2; the first token is not scored")
    ] = False

    extra_eos_ids: Annotated[
        tuple[int, ...],
        Doc("additional ids that end generation like EOS"),
        Ge(SPECIAL.eos + 1),
        IDS,
    ] = ()


class Causal(CausalLanguageModel):
    """A causal language model."""

    config: CausalConfig

    def __init__(self, config: CausalConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.bare_prompts, self.extra_eos_ids = config.bare_prompts, config.extra_eos_ids
        if max(config.extra_eos_ids, default=0) >= vocabulary.target:
            raise ConfigError(
                f"model.extra_eos_ids contains {max(config.extra_eos_ids)}, but the vocabulary has "
                f"{vocabulary.target} tokens. Remove it, or copy the whole model folder again."
            )

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text after BOS, unless `bare_prompts` is set."""
        return [*ids] if ids and self.bare_prompts else [self.decoder_start_id, *ids]

    def forward(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Predictions:
        """Hidden states of all tokens."""
        recorder = self.sampling_recorder(recorder)
        hidden = self.hidden_states(batch.source, recorder=recorder)
        return self.predictions(hidden, batch.target, recorder)

    def prefill(self, tokens: Tensor, state: StackState) -> None:
        """Process a prompt in one pass, or step by step with convolutions. (B, T)"""
        sentences, length = tokens.shape
        if self.config.ffn_type == "convolution" or not length:
            return super().prefill(tokens, state)
        lengths = Lengths.of([length] * sentences).to(tokens.device)
        x = self.embedding(tokens.flatten(), lengths.positions, length)
        return state.prefill(self.encoder.forward_with_cache(x, lengths, causal=True))

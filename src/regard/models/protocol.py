"""The interfaces of models for losses and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

from regard.attention.cache import Indices
from regard.attention.multihead import AttentionRecorder
from regard.data.content import Vocabulary as Vocabulary
from regard.data.ragged import Lengths, Ragged
from regard.layers.embedding import Projection


@dataclass(frozen=True)
class Predictions:
    """The predictions of a model for a batch; the loss computes the logits, if it needs them.

    There is a target for each hidden state; the loss ignores targets that are `SPECIAL.pad`.
    Subclasses have additional predictions.
    """

    hidden: Tensor  # (N, D)
    targets: Tensor  # (N,)
    project: Projection  # (n, D) -> (n, V)
    lengths: Lengths | None = None  # of the sentences among the N tokens
    selection_log_probs: Tensor | None = None  # (B,) weighted, of sampled attention

    def __post_init__(self) -> None:
        assert self._fits(), f"{len(self.hidden)} hidden states for {len(self.targets)} targets"

    def _fits(self) -> bool:
        return len(self.hidden) == len(self.targets)


@dataclass(frozen=True)
class ClassLogits:
    """Logits of a classification, and the target classes."""

    logits: Tensor  # (N, classes)
    targets: Tensor  # (N,)


class TextEncoder(Protocol):
    """A model that encodes a single text: `ModelConfig.embeds_text`."""

    def with_special_tokens(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text with the special tokens that the model expects."""
        ...

    def hidden_states(self, text: Ragged, *, recorder: AttentionRecorder | None = None) -> Tensor:
        """The hidden states of all tokens. (N, D)"""
        ...


class State(Protocol):
    """The decoding state of W beams for each of B sentences."""

    def reserve(self, length: int, *, exact: bool) -> None:
        """Let the next step attend to `length` positions, and grow caches if necessary.

        exact: the next token is at the last of these positions
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Replace each beam by its parent, a beam of the same sentence; parents (B, W)."""
        ...

    def select(self, sentences: Indices) -> Self:
        """The state of some sentences. (A,)"""
        ...


S = TypeVar("S", bound=State)


class Autoregressive(Protocol[S]):
    """A model that decodes token by token: the interface of searches."""

    def start(self, source: Ragged, *, beams: int = 1, capacity: int = 256) -> S:
        """The initial state, with a cache for `capacity` tokens of each beam."""
        ...

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The input of the first step. (B, W)"""
        ...

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """Next-token logits after one token per beam; updates the state.

        tokens (B, W) -> logits (B, W, V), which the caller may modify
        """
        ...

    @property
    def step_capturable(self) -> bool:
        """Whether steps can be captured as CUDA graphs."""
        ...

    @property
    def start_capturable(self) -> bool:
        """Whether `start` can be captured as a CUDA graph for all sources of a shape."""
        ...

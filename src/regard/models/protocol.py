"""What losses, searches and folders know of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

from regard.attention.cache import Some
from regard.attention.multihead import AttentionRecord
from regard.data.content import Vocabulary as Vocabulary
from regard.data.ragged import Lengths, Ragged
from regard.layers.embedding import Projection


@dataclass(frozen=True)
class Predictions:
    """What a model predicts for a batch; the loss decides whether logits are ever computed.

    There is a target for each hidden state; where the target is `SPECIAL.pad`, the loss ignores it.
    A kind of model that predicts more has a subclass of its own.
    """

    hidden: Tensor  # (N, D)
    targets: Tensor  # (N,)
    project: Projection  # (n, D) -> (n, V)
    lengths: Lengths | None = None  # of the sentences among the N tokens
    choices: Tensor | None = None  # (B,) weighted log-probability of what hard attention drew

    def __post_init__(self) -> None:
        assert self._fits(), f"{len(self.hidden)} hidden states for {len(self.targets)} targets"

    def _fits(self) -> bool:
        return len(self.hidden) == len(self.targets)


@dataclass(frozen=True)
class Classes:
    """Logits over a few classes, and the right ones."""

    logits: Tensor  # (N, classes)
    wanted: Tensor  # (N,)


class TextReader(Protocol):
    """A model whose stack reads a text by itself: `ModelConfig.embeds_text`."""

    def text_row(self, ids: Sequence[int]) -> list[int]:
        """A text with the special tokens that it is read with."""
        ...

    def read(self, text: Ragged, *, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each token. (N, D)"""
        ...


class State(Protocol):
    """What a search carries from step to step: for each of B sentences, W beams and their pasts."""

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places, for which room is made if there is none.

        exact: the last of them is where it stands
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        ...

    def select(self, sentences: Some) -> Self:
        """Some sentences alone. (A,)"""
        ...


S = TypeVar("S", bound=State)


class Autoregressive(Protocol[S]):
    """A model that writes one token after another; every search needs this and no more."""

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> S:
        """A state for the source sentences, with room for so many beams and tokens of each."""
        ...

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """What the first step reads. (B, W)"""
        ...

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """Read one token a beam and score the next; the state moves on.

        tokens (B, W) -> logits (B, W, V), which are the caller's
        """
        ...

    @property
    def can_be_recorded(self) -> bool:
        """Whether a step is the same work on tensors each time, whatever it reaches."""
        ...

    @property
    def start_can_be_recorded(self) -> bool:
        """Whether a start is the same work on tensors for all sources of a shape."""
        ...

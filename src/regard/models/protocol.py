"""What a model is to the rest of the house: to losses, to searches, to folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

from regard.data.ragged import Lengths, Ragged
from regard.layers.embedding import Projection


@dataclass(frozen=True)
class Vocabulary:
    """How many ids each side has, and whether they mean the same on both."""

    source: int
    target: int
    joint: bool = True


@dataclass(frozen=True)
class Predictions:
    """What a model says of a batch; the loss decides whether logits ever exist."""

    hidden: Tensor  # (N, D)
    targets: Tensor  # (N,)
    project: Projection  # (n, D) -> (n, V)
    lengths: Lengths | None = None  # of the sentences among the N tokens
    choices: Tensor | None = None  # (B,) weighted log-probability of what hard attention drew


class State(Protocol):
    """What a search carries from step to step: some number of rows, each with its past."""

    def select(self, rows: Tensor) -> Self:
        """These rows, in this order, as often as they are named."""
        ...


S = TypeVar("S", bound=State)


class Autoregressive(Protocol[S]):
    """A model that writes one token after another; every search needs this and no more."""

    def start(self, source: Ragged) -> S:
        """A state with one row for each source sentence."""
        ...

    def first_tokens(self, rows: int) -> Tensor:
        """What the first step reads. (rows,)"""
        ...

    def step(self, tokens: Tensor, state: S) -> tuple[Tensor, S]:
        """Read one token a row and score the next; the given state is consumed.

        tokens (B,) -> logits (B, V)
        """
        ...

"""What a model is to the rest of the house: to losses, to searches, to folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from torch import Tensor

from regard.attention.cache import Some
from regard.data.ragged import Lengths, Ragged
from regard.data.store_description import Vocabulary as Vocabulary
from regard.layers.crf import Crf
from regard.layers.embedding import Projection
from regard.layers.recall import Memory

NO_FERTILITY = -100  # of what only fills a shape


@dataclass(frozen=True)
class Fertilities:
    """How many words a model gives each source token, beside how many it should."""

    logits: Tensor  # (source tokens, classes) of 0, 1, 2 ... words
    wanted: Tensor  # (source tokens,) or `NO_FERTILITY`


@dataclass(frozen=True)
class Classes:
    """What a model says of whole rows, beside what is right."""

    logits: Tensor  # (B, classes)
    wanted: Tensor  # (B,)


@dataclass(frozen=True)
class Hints:
    """Words that a decoder which writes all at once reads at some places, instead of its own."""

    tokens: Tensor  # (N,)
    given: Tensor  # (N,) where they are read

    def twice(self) -> Hints:
        """For all sentences, and then for all of them again."""
        return Hints(self.tokens.repeat(2), self.given.repeat(2))


@dataclass(frozen=True)
class Predictions:
    """What a model says of a batch; the loss decides whether logits ever exist.

    There is a target for each hidden state, unless there are `labels`: then a sentence has more
    states than words, and any path that reads as its targets will do (`layers/ctc.py`).
    """

    hidden: Tensor  # (N, D)
    targets: Tensor  # (N,), or as the labels say
    project: Projection  # (n, D) -> (n, V)
    lengths: Lengths | None = None  # of the sentences among the N tokens
    choices: Tensor | None = None  # (B,) weighted log-probability of what hard attention drew
    labels: Lengths | None = None  # of the sentences among the targets, ends included
    fertilities: Fertilities | None = None  # where a model says how long its output gets
    sentences: Classes | None = None  # where it says which pieces of text belong together
    chain: Crf | None = None  # where the labels of a sentence are chosen together
    memory: Memory | None = None  # what the next segments of the same streams are read with


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

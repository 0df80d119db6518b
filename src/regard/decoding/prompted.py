"""A model that has read a prompt: a search begins after it, and scores only what follows."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from regard.attention.cache import Some
from regard.data.ragged import Ragged
from regard.models.language import WritingModel
from regard.models.stacks import StackState


@dataclass
class PromptedState:
    """A state that stands some places further on than the search knows."""

    inner: StackState
    offset: int

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places, and at the prompt."""
        self.inner.reach(self.offset + places, exact=exact)

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        self.inner.reorder(parents)

    def select(self, sentences: Some) -> PromptedState:
        """Some sentences alone."""
        return PromptedState(self.inner.select(sentences), self.offset)


@dataclass(frozen=True)
class Prompted:
    """A model, and prompts of equal length."""

    model: WritingModel
    prompts: Tensor  # (B, T)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> PromptedState:
        """A state in which all of the prompts but their last tokens are read."""
        before = self.prompts.shape[1] - 1
        state = self.model.start(source, beams=beams, room=before + room)
        self.model.read_ahead(self.prompts[:, :-1], state)
        return PromptedState(state, before)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The last tokens of the prompts. (B, W)"""
        return self.prompts[:, -1:].repeat(1, beams)

    def step(self, tokens: Tensor, state: PromptedState) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V)"""
        return self.model.step(tokens, state.inner)

    @property
    def can_be_recorded(self) -> bool:
        """Its places are not the search's."""
        return False

    @property
    def start_can_be_recorded(self) -> bool:
        """The prompts are its own."""
        return False

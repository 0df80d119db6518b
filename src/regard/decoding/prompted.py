"""A model that has read a prompt: a search begins after it, and scores only what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from torch import Tensor

from regard.attention.cache import Some
from regard.data.ragged import Ragged
from regard.models.protocol import Autoregressive, S


@dataclass
class PromptedState(Generic[S]):
    """A state that stands some places further on than the search knows."""

    inner: S
    offset: int

    def reach(self, places: int, *, exact: bool) -> None:
        """The next step looks at so many places, and at the prompt."""
        self.inner.reach(self.offset + places, exact=exact)

    def reorder(self, parents: Tensor) -> None:
        """Each beam goes on from another one of its sentence. (B, W)"""
        self.inner.reorder(parents)

    def select(self, sentences: Some) -> PromptedState[S]:
        """Some sentences alone."""
        return PromptedState(self.inner.select(sentences), self.offset)


@dataclass(frozen=True)
class Prompted(Generic[S]):
    """A model, and prompts of equal length."""

    model: Autoregressive[S]
    prompts: Tensor  # (B, T)

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> PromptedState[S]:
        """A state in which all of the prompts but their last tokens are read."""
        before = self.prompts.shape[1] - 1
        state = self.model.start(source, beams=beams, room=before + room)
        for place in range(before):
            state.reach(place + 1, exact=True)
            self.model.step(self._column(place, beams), state)
        return PromptedState(state, before)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The last tokens of the prompts. (B, W)"""
        return self._column(-1, beams)

    def step(self, tokens: Tensor, state: PromptedState[S]) -> Tensor:
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

    def _column(self, place: int, beams: int) -> Tensor:
        return self.prompts[:, place, None].repeat(1, beams)

"""Several tokens that end a text, of which a search sees one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class SeveralEnds(Generic[S]):
    """A model whose other EOS tokens are written as our EOS.

    A search takes the likeliest of them; the others keep their share of probability, as tokens do
    that nobody writes. Where tokens are drawn, EOS is as likely as all of them together.
    """

    model: Autoregressive[S]
    others: Sequence[int]  # EOS tokens beside ours
    temperature: float | None = None  # of drawing; None: tokens are searched for

    def start(self, source: Ragged, *, beams: int = 1, room: int = 256) -> S:
        """The model's."""
        return self.model.start(source, beams=beams, room=room)

    def first_tokens(self, sentences: int, beams: int = 1) -> Tensor:
        """The model's. (B, W)"""
        return self.model.first_tokens(sentences, beams)

    def step(self, tokens: Tensor, state: S) -> Tensor:
        """Read one token a beam and score the next: (B, W) -> (B, W, V)"""
        logits = self.model.step(tokens, state)
        columns = torch.tensor([SPECIAL.end, *self.others], device=logits.device)
        ends = logits[..., columns].float()
        if self.temperature is None:
            best, place = ends.max(-1, keepdim=True)
            rest = ends.scatter(-1, place, -torch.inf).logsumexp(-1)
            unwritten = logits[..., SPECIAL.pad].float()
            logits[..., SPECIAL.pad] = torch.logaddexp(unwritten, rest).to(logits.dtype)
        else:
            best = (ends / self.temperature).logsumexp(-1, keepdim=True) * self.temperature
        logits[..., columns] = -torch.inf
        logits[..., SPECIAL.end] = best.squeeze(-1).to(logits.dtype)
        return logits

    @property
    def can_be_recorded(self) -> bool:
        """Its columns are made anew each time."""
        return False

    @property
    def start_can_be_recorded(self) -> bool:
        """Whether the model's can."""
        return self.model.start_can_be_recorded

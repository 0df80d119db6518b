"""What may be written next: pure functions on log-probabilities, used by every search.

They forbid (set to -inf) and never renormalise, so a search's score stays the model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.text.special import SPECIAL

_FREE = -1


@dataclass(frozen=True)
class Rules:
    """For each sentence: how long it may get, and with which tokens it has to begin."""

    limits: Tensor  # (B,) tokens, the end mark included
    prefixes: Tensor  # (B, P), filled up with -1

    @staticmethod
    def of(
        limits: Sequence[int], prefixes: Sequence[Sequence[int]] | None, device: torch.device
    ) -> Rules:
        """From plain lists."""
        prefixes = prefixes or [[] for _ in limits]
        longest = max(map(len, prefixes))
        filled = [[*prefix, *[_FREE] * (longest - len(prefix))] for prefix in prefixes]
        table = torch.tensor(filled, device=device, dtype=torch.long).view(len(limits), longest)
        # A forced beginning is always allowed to be written out and ended.
        room = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, prefixes, strict=True)]
        return Rules(torch.tensor(room, device=device), table)

    def select(self, sentences: Tensor) -> Rules:
        """The rules of these sentences."""
        return Rules(self.limits[sentences], self.prefixes[sentences])

    def adjust(self, log_probs: Tensor, step: int) -> Tensor:
        """Apply all rules to what may stand at place `step`: (B, ..., V) -> the same."""
        log_probs = without_marks(log_probs)
        log_probs = ended_at_limit(log_probs, self.limits, step)
        if step < self.prefixes.shape[1]:
            log_probs = forced(log_probs, self.prefixes[:, step])
        return log_probs


def without_marks(log_probs: Tensor) -> Tensor:
    """Nobody writes padding, a start mark or an unknown word."""
    marks = torch.tensor([SPECIAL.pad, SPECIAL.unknown, SPECIAL.start], device=log_probs.device)
    return log_probs.index_fill(-1, marks, -torch.inf)


def ended_at_limit(log_probs: Tensor, limits: Tensor, step: int) -> Tensor:
    """At its limit a sentence can only end."""
    words = torch.arange(log_probs.shape[-1], device=log_probs.device)
    full = _per_sentence(step + 1 >= limits, log_probs)
    return log_probs.masked_fill(full & (words != SPECIAL.end), -torch.inf)


def forced(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Where a token is prescribed (not -1), only that one may be written. tokens (B,)"""
    words = torch.arange(log_probs.shape[-1], device=log_probs.device)
    wanted = _per_sentence(tokens, log_probs)
    return log_probs.masked_fill((wanted != _FREE) & (words != wanted), -torch.inf)


def _per_sentence(values: Tensor, log_probs: Tensor) -> Tensor:
    """(B,) to (B, 1, ..., 1), as many axes as the log-probabilities have."""
    return values.view(-1, *[1] * (log_probs.dim() - 1))

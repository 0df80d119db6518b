"""What may be written next, the same for every search.

Rules forbid and force, and never renormalise, so a search's score stays the model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoding.config import AtLimit
from regard.text.special import SPECIAL

FREE = -1


@dataclass(frozen=True)
class Rules:
    """For each sentence: how long it may get, and with which tokens it has to begin."""

    limits: Tensor  # (B,) tokens, the end mark included
    prefixes: Tensor  # (B, P), filled up with -1
    minimum: int = 0  # tokens before the end mark
    at_limit: AtLimit = "scored"  # what an end at the limit adds to score and length
    least_limit: int = 1
    greatest_limit: int = 1

    @staticmethod
    def of(
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
        device: torch.device,
        minimum: int = 0,
        *,
        at_limit: AtLimit = "scored",
    ) -> Rules:
        """From plain lists."""
        prefixes = prefixes or [[] for _ in limits]
        longest = max(map(len, prefixes))
        filled = [[*prefix, *[FREE] * (longest - len(prefix))] for prefix in prefixes]
        table = torch.tensor(filled, device=device, dtype=torch.long).view(len(limits), longest)
        # A forced beginning is always allowed to be written out and ended.
        room = [max(limit, len(prefix) + 1) for limit, prefix in zip(limits, prefixes, strict=True)]
        bounds = torch.tensor(room, device=device)
        minimum = min(minimum, min(room) - 1)  # positions may end before
        return Rules(bounds, table, minimum, at_limit, min(room), max(room))

    def select(self, sentences: Tensor) -> Rules:
        """The rules of these sentences."""
        return replace(self, limits=self.limits[sentences], prefixes=self.prefixes[sentences])

    def with_limits_of(self, others: Rules) -> Rules:
        """These tensors, into which those of other rules were copied."""
        return replace(self, least_limit=others.least_limit, greatest_limit=others.greatest_limit)

    def may_force(self, step: int) -> bool:
        """Whether anything could be forced at this place."""
        return step < self.prefixes.shape[1] or step + 1 >= self.least_limit

    def forced(self, place: Tensor) -> Tensor:
        """What has to be written at a place (1,): a token, or -1 where anything may be. (B,)

        A beginning as prescribed, and an end at the limit.
        """
        tokens = torch.where(place + 1 >= self.limits, SPECIAL.end, FREE)
        length = self.prefixes.shape[1]
        if length == 0:
            return tokens
        prescribed = self.prefixes.index_select(1, place.clamp(max=length - 1)).squeeze(1)
        return torch.where((place < length) & (prescribed != FREE), prescribed, tokens)

    def paid(self, gains: Tensor, place: Tensor) -> Tensor:
        """What forced tokens at a place (1,) add: what the model says, or nothing. (B, W)"""
        if self.at_limit == "scored":
            return gains
        return gains.masked_fill((place + 1 >= self.limits)[:, None], 0.0)

    def counted(self, place: Tensor) -> Tensor:
        """The length by which ends at places (1,) or (B, W) are judged; a cut adds nothing."""
        if self.at_limit != "cut":
            return place + 1
        limits = self.limits if place.ndim == 1 else self.limits[:, None]
        return torch.where(place + 1 >= limits, place.clamp(min=1), place + 1)

    def forbid(self, logits: Tensor) -> None:
        """Nobody writes padding, a start mark or an unknown word; they keep their probability."""
        for mark in (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start):
            logits[..., mark] = -torch.inf

    def forbid_early_end(self, logits: Tensor, place: Tensor) -> None:
        """Forbid EOS before the minimum; other tokens get its probability, as in CTranslate2."""
        if self.minimum:
            logits[..., SPECIAL.end].masked_fill_(place < self.minimum, -torch.inf)

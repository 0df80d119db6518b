"""Decoding constraints, shared by all searches: length limits, forced prefixes, banned tokens.

Constraints ban or force tokens without renormalizing, so scores remain those of the model. A prefix
may begin with context: previous sentences, which count neither for scores nor for lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoding.config import AtLimit
from regard.text.special import SPECIAL

FREE = -1  # no token is forced


@dataclass(frozen=True)
class DecodingConstraints:
    """Length limits and forced prefixes of B sentences."""

    limits: Tensor  # (B,) maximum lengths, EOS included
    prefixes: Tensor  # (B, P) forced prefixes, padded with FREE
    min_length: int = 0  # tokens before EOS
    at_limit: AtLimit = "scored"  # what a forced EOS at the limit adds to score and length
    smallest_limit: int = 1
    largest_limit: int = 1
    contexts: Tensor | None = None  # (B,) tokens of each prefix that are context; None: no context

    @staticmethod
    def of(
        limits: Sequence[int],
        prefixes: Sequence[Sequence[int]] | None,
        device: torch.device,
        min_length: int = 0,
        *,
        at_limit: AtLimit = "scored",
        contexts: Sequence[int] = (),
    ) -> DecodingConstraints:
        """Constraints from lists with one entry per sentence.

        `contexts` are the lengths of the context, which limits and prefixes include.
        """
        prefixes = prefixes or [[] for _ in limits]
        longest = max(map(len, prefixes))
        if any(contexts):  # which is of any length: few shapes, for CUDA graphs
            longest = max(16, 1 << (longest - 1).bit_length())
        padded = [[*prefix, *[FREE] * (longest - len(prefix))] for prefix in prefixes]
        table = torch.tensor(padded, device=device, dtype=torch.long).view(len(limits), longest)
        # The limit never truncates a forced prefix or its EOS.
        limits = [max(limit, len(ids) + 1) for limit, ids in zip(limits, prefixes, strict=True)]
        lengths = contexts or [0] * len(limits)
        least = min(limit - length for limit, length in zip(limits, lengths, strict=True))
        min_length = min(min_length, least - 1)  # max_positions may be smaller
        return DecodingConstraints(
            torch.tensor(limits, device=device),
            table,
            min_length,
            at_limit,
            min(limits),
            max(limits),
            torch.tensor(contexts, device=device) if any(contexts) else None,
        )

    def select(self, sentences: Tensor) -> DecodingConstraints:
        """The constraints of these sentences."""
        contexts = None if self.contexts is None else self.contexts[sentences]
        limits, prefixes = self.limits[sentences], self.prefixes[sentences]
        return replace(self, limits=limits, prefixes=prefixes, contexts=contexts)

    def context_lengths(self, sentences: Tensor) -> list[int]:
        """The number of context tokens of these sentences, on the host."""
        if self.contexts is None:
            return [0] * len(sentences)
        lengths: list[int] = self.contexts.cpu()[sentences].tolist()
        return lengths

    def with_limits_of(self, other: DecodingConstraints) -> DecodingConstraints:
        """These constraints with the Python limits of `other`, whose tensors were copied here."""
        return replace(self, smallest_limit=other.smallest_limit, largest_limit=other.largest_limit)

    def may_force(self, step: int) -> bool:
        """Whether any token could be forced at this step."""
        return step < self.prefixes.shape[1] or step + 1 >= self.smallest_limit

    def forced_tokens(self, position: Tensor) -> Tensor:
        """The forced token of each sentence, or FREE: its prefix, and EOS at its limit.

        position (1,) -> (B,)
        """
        tokens = torch.where(position + 1 >= self.limits, SPECIAL.eos, FREE)
        length = self.prefixes.shape[1]
        if length == 0:
            return tokens
        prefix = self.prefixes.index_select(1, position.clamp(max=length - 1)).squeeze(1)
        return torch.where((position < length) & (prefix != FREE), prefix, tokens)

    def forced_log_probs(self, log_probs: Tensor, position: Tensor) -> Tensor:
        """The log-probs that forced tokens add: the model's, or 0. (B, W)

        They are 0 for context, and for EOS at the limit unless it is scored.
        """
        if self.contexts is not None:
            log_probs = log_probs.masked_fill((position < self.contexts)[:, None], 0.0)
        if self.at_limit == "scored":
            return log_probs
        return log_probs.masked_fill((position + 1 >= self.limits)[:, None], 0.0)

    def without_context(self, tokens: Tensor, position: Tensor) -> Tensor:
        """The tokens at a position, with PAD in place of context. (B, W)"""
        if self.contexts is None:
            return tokens
        return tokens.masked_fill((position < self.contexts)[:, None], SPECIAL.pad)

    def scored_length(self, position: Tensor) -> Tensor:
        """The length that normalizes the score of a hypothesis with EOS at this position.

        A truncated hypothesis (`at_limit="cut"`) does not count EOS. position (1,) or (B, W)
        """
        lengths = position + 1
        if self.at_limit == "cut":
            limits = self.limits if position.ndim == 1 else self.limits[:, None]
            lengths = torch.where(lengths >= limits, position.clamp(min=1), lengths)
        if self.contexts is None:
            return lengths
        contexts = self.contexts if position.ndim == 1 else self.contexts[:, None]
        return (lengths - contexts).clamp(min=1)

    def ban_special_tokens(self, logits: Tensor) -> None:
        """Ban PAD, UNK and BOS in place; their probability is not redistributed. (..., V)"""
        for token in (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos):
            logits[..., token] = -torch.inf

    def ban_early_eos(self, logits: Tensor, position: Tensor) -> None:
        """Ban EOS in place before `min_length`; softmax redistributes it, as in CTranslate2."""
        if not self.min_length:
            return
        is_early = position < self.min_length
        if self.contexts is not None:
            rows = logits.shape[0] // len(self.contexts)
            is_early = position - self.contexts.repeat_interleave(rows) < self.min_length
        logits[..., SPECIAL.eos].masked_fill_(is_early, -torch.inf)

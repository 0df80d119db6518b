"""Penalties: what a hypothesis may not repeat, token sequences that are banned, minimum lengths.

Bans do not redistribute the probability of the banned tokens, so scores remain those of the model,
and a prefix that only banned tokens would continue well loses against other prefixes. The
repetition penalty changes logits before the softmax, and therefore scores (Keskar et al., 2019,
arXiv:1909.05858).

All tensors have fixed shapes and nothing is copied to the host, so that a step of a search with
penalties can be captured as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoding.config import SearchConfig
from regard.text.special import SPECIAL

_ANY, _NONE = -1, -2  # in place of a token: matches every token; equals none


@dataclass(frozen=True)
class PenaltyConfig:
    """The penalties of a search, and the minimum length of each sentence."""

    no_repeat_ngram_size: int
    repetition_penalty: float
    banned_sequences: tuple[tuple[int, ...], ...]
    minimums: Sequence[int]  # tokens before EOS, per sentence

    @staticmethod
    def of(config: SearchConfig, minimums: Sequence[int]) -> PenaltyConfig | None:
        """The penalties that the settings require; None: a plain search."""
        if not config.has_penalties:
            return None
        return PenaltyConfig(
            config.no_repeat_ngram_size,
            config.repetition_penalty,
            config.banned_sequences,
            minimums,
        )

    def start(self, tokens: Tensor) -> Penalties:
        """The penalties at position 0, given the empty tokens of a search. (T, B, W)"""
        banned = self.banned_sequences
        longest = max(map(len, banned), default=1)
        heads = [[*[_ANY] * (longest - len(ids)), *ids[:-1]] for ids in banned]
        return Penalties(
            self.no_repeat_ngram_size,
            self.repetition_penalty,
            tokens.new_tensor(heads).view(len(banned), longest - 1),
            tokens.new_tensor([ids[-1] for ids in banned]),
            tokens.new_tensor(self.minimums),
            tokens.new_zeros(*tokens.shape[1:], tokens.shape[0]),
        )


@dataclass(frozen=True)
class Penalties:
    """Penalties for the next tokens of B sentences with W beams each."""

    no_repeat_ngram_size: int
    repetition_penalty: float
    banned_heads: Tensor  # (S, L - 1) all but the last token of banned sequences, after _ANY
    banned_last: Tensor  # (S,) their last tokens
    minimums: Tensor  # (B,) tokens before EOS
    tokens: Tensor  # (B, W, T) of each beam; those from the current position on have no meaning

    @property
    def graph_key(self) -> Hashable:
        """Everything but tensor shapes that a step depends on."""
        return self.no_repeat_ngram_size, self.repetition_penalty

    def select(self, sentences: Tensor) -> Penalties:
        """The penalties of these sentences."""
        minimums, tokens = self.minimums[sentences], self.tokens[sentences]
        return replace(self, minimums=minimums, tokens=tokens)

    def append(self, tokens: Tensor, position: Tensor, parents: Tensor | None = None) -> None:
        """Append a token to each beam, after replacing each beam by its parent. (B, W), (1,)"""
        if parents is not None:
            index = parents[:, :, None].expand_as(self.tokens)
            self.tokens.copy_(self.tokens.gather(1, index))
        self.tokens.index_copy_(2, position, tokens[:, :, None])

    def penalize_repetition(self, logits: Tensor, position: Tensor) -> None:
        """Apply the repetition penalty to logits (B W, V) in place."""
        if self.repetition_penalty == 1:
            return
        tokens = self.tokens.flatten(0, 1)
        is_generated = torch.arange(tokens.shape[1], device=tokens.device) < position
        # Other positions stand for the first one, since equal tokens must get equal values.
        tokens = torch.where(is_generated, tokens, tokens[:, :1])
        values = logits.gather(1, tokens)
        penalized = torch.where(
            values < 0, values * self.repetition_penalty, values / self.repetition_penalty
        )
        logits.scatter_(1, tokens, torch.where(position > 0, penalized, values))

    def ban(self, scores: Tensor, position: Tensor) -> None:
        """Ban tokens in place: of repeated n-grams, banned sequences, and EOS. (B W, V)"""
        tokens = self.tokens.flatten(0, 1)
        banned = []
        if self.no_repeat_ngram_size:
            banned.append(_repeating_tokens(tokens, position, self.no_repeat_ngram_size))
        if len(self.banned_last):
            banned.append(self._completing_tokens(tokens, position))
        if banned:
            scores.scatter_(1, torch.cat(banned, 1), -torch.inf)
        is_too_short = (position < self.minimums).repeat_interleave(self.tokens.shape[1])
        scores[:, SPECIAL.eos].masked_fill_(is_too_short, -torch.inf)

    def _completing_tokens(self, tokens: Tensor, position: Tensor) -> Tensor:
        """The tokens that would complete a banned sequence, or PAD. (R, T) -> (R, S)"""
        count = self.banned_heads.shape[1]
        indices = position - count + torch.arange(count, device=tokens.device)
        last = tokens.index_select(1, indices.clamp(min=0))  # (R, L - 1)
        last = torch.where(indices >= 0, last, _NONE)[:, None]
        matches = ((last == self.banned_heads) | (self.banned_heads == _ANY)).all(2)
        return torch.where(matches, self.banned_last, SPECIAL.pad)


def _repeating_tokens(tokens: Tensor, position: Tensor, size: int) -> Tensor:
    """The tokens that would repeat an n-gram of this size, or PAD. (R, T) -> (R, T - size + 1)

    PAD is never generated, so it stands for no token. EOS is not banned: it is only part of an
    n-gram where a hypothesis has ended.
    """
    if tokens.shape[1] < size:
        return tokens[:, :0]
    windows = tokens.unfold(1, size, 1)
    starts = torch.arange(windows.shape[1], device=tokens.device)
    indices = position - size + 1 + torch.arange(size - 1, device=tokens.device)
    last = tokens.index_select(1, indices.clamp(min=0))
    repeats = (windows[:, :, :-1] == last[:, None]).all(2) & (starts + size <= position)
    final = windows[:, :, -1]
    return torch.where(repeats & (final != SPECIAL.eos), final, SPECIAL.pad)

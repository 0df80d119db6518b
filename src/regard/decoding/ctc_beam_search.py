"""CTC prefix beam search: the most probable outputs, summed over all paths.

The best path need not collapse to the best output, which may have many paths. Each prefix is kept
once, with the total probability of its paths so far, in two parts: paths that end in a blank, after
which the last token can be emitted again, and paths that end in the last token, where the same
token is a repetition (Graves, 2012; Hannun et al., 2014, arXiv:1408.2873). At each position,

    a prefix stays the same   after a blank or a repetition of its last token
    a prefix is extended      by one token; if the result is already a beam, both are merged

All sentences of a batch advance together, and all tensors have fixed shapes, so that the search can
be captured as a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_THRESHOLD = 1e-4  # relative to the best of a position: less probable tokens are skipped
_MIN_BLANK = 1e-30  # probability of a blank, so that some path is always possible
_HASH_FACTOR = 6364136223846793005  # of the polynomial hash of a prefix


class TopProbabilities(NamedTuple):
    """The probabilities of a blank and of K tokens, best first, at T positions of B sentences.

    The blank has probability 1 at padding positions.
    """

    blank: Tensor  # (B, T)
    tokens: Tensor  # (B, T, K)
    probabilities: Tensor  # (B, T, K)


def prefix_beam_search(top: TopProbabilities, beam_size: int) -> PrefixBeams:
    """The `beam_size` most probable outputs of each sentence, best first."""
    blank, tokens, probabilities = top
    best = torch.maximum(blank, probabilities[..., 0])[..., None]
    probabilities = probabilities.masked_fill(probabilities <= _THRESHOLD * best, 0.0)
    beams = PrefixBeams.initial(blank, beam_size)
    positions = (part.unbind(1) for part in (blank.clamp(min=_MIN_BLANK), tokens, probabilities))
    for position in zip(*positions, strict=True):
        beams.advance(*position)
    return beams


@dataclass
class PrefixBeams:
    """The W most probable prefixes of each sentence; (B, W) unless noted."""

    ends_in_blank: Tensor  # probability of the paths that end in a blank, divided by the scale
    ends_in_token: Tensor  # probability of the paths that end in the last token
    log_scale: Tensor  # (B,) log of the scale, which prevents underflow
    hashes: Tensor  # of the prefixes
    last: Tensor  # last tokens
    tokens: Tensor  # (B, W, T)
    lengths: Tensor  # of the prefixes in `tokens`

    @staticmethod
    def initial(blank: Tensor, beam_size: int) -> PrefixBeams:
        """One empty prefix per sentence; the other beams are unused. blank (B, T)"""
        (sentences, length), device = blank.shape, blank.device
        zeros = torch.zeros(sentences, beam_size, dtype=torch.long, device=device)
        ends_in_blank = zeros.to(blank.dtype)
        ends_in_blank[:, 0] = 1.0
        return PrefixBeams(
            ends_in_blank=ends_in_blank,
            ends_in_token=torch.zeros_like(ends_in_blank),
            log_scale=torch.zeros_like(ends_in_blank[:, 0]),
            hashes=zeros - torch.arange(beam_size, device=device),  # distinct for unused beams
            last=zeros - 1,
            tokens=zeros[..., None].repeat(1, 1, length),
            lengths=zeros,
        )

    @property
    def log_probs(self) -> Tensor:
        """The log-prob of each prefix; -inf for unused beams. (B, W)"""
        return (self.ends_in_blank + self.ends_in_token).log() + self.log_scale[:, None]

    def advance(self, blank: Tensor, tokens: Tensor, probabilities: Tensor) -> None:
        """Process one position: blank (B,), tokens and probabilities (B, K)."""
        total = self.ends_in_blank + self.ends_in_token
        repeats = tokens[:, None] == self.last[..., None]  # (B, W, K)
        previous = torch.where(repeats, self.ends_in_blank[..., None], total[..., None])
        extended = previous * probabilities[:, None]
        hashes = self.hashes[..., None] * _HASH_FACTOR + tokens[:, None] + 1
        is_beam = hashes[..., None] == self.hashes[:, None, None]  # (B, W, K, W)
        ends_in_blank = total * blank[:, None]
        ends_in_token = self.ends_in_token * (repeats * probabilities[:, None]).sum(-1)
        ends_in_token = ends_in_token + (is_beam * extended[..., None]).sum((1, 2))
        extended = extended.masked_fill(is_beam.any(-1), -1.0)  # merged, so never selected
        self._prune(ends_in_blank, ends_in_token, extended.flatten(1), hashes.flatten(1), tokens)

    def _prune(
        self,
        ends_in_blank: Tensor,
        ends_in_token: Tensor,
        extended: Tensor,
        hashes: Tensor,
        tokens: Tensor,
    ) -> None:
        """Keep the most probable of the unchanged (B, W) and the extended prefixes (B, W * K)."""
        beam_size, count = ends_in_blank.shape[1], tokens.shape[1]
        totals = torch.cat([ends_in_blank + ends_in_token, extended], 1)
        totals, chosen = totals.topk(beam_size, dim=1)
        is_extended = chosen >= beam_size
        index = (chosen - beam_size).clamp(min=0)  # among the extended
        parents = torch.where(is_extended, index // count, chosen)
        new = tokens.gather(1, index % count)
        best = totals[:, :1]
        self.ends_in_blank = ends_in_blank.gather(1, parents).masked_fill(is_extended, 0.0) / best
        self.ends_in_token = (
            torch.where(is_extended, totals, ends_in_token.gather(1, parents)) / best
        )
        self.log_scale = self.log_scale + best[:, 0].log()
        self.hashes = torch.where(
            is_extended, hashes.gather(1, index), self.hashes.gather(1, parents)
        )
        self.last = torch.where(is_extended, new, self.last.gather(1, parents))
        lengths = self.lengths.gather(1, parents)
        self.tokens = self.tokens.gather(1, parents[..., None].expand_as(self.tokens))
        # Beyond the length of a prefix that was not extended, the token is ignored.
        self.tokens.scatter_(2, lengths[..., None], new[..., None])
        self.lengths = lengths + is_extended

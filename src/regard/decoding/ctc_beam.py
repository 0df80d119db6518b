"""What CTC finds likeliest to read, over all paths: a search over beginnings, place by place.

The likeliest path need not read as the likeliest sentence, which may have many paths. A beginning
is kept once, however it is written, with the chance of all its paths so far: of those that end in
a blank, after which its last word can be written anew, and of those that do not, where the same
word only goes on (Graves, 2012; Hannun et al., 2014, arXiv:1408.2873).

    stays     a beginning, after a blank or after its last word once more
    grows     a beginning and one word; if that is another beginning that is kept, they are one

All sentences go on together, and everything is a tensor of fixed size, so that a search can be
recorded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

_UNLIKELY = 1e-4  # beside the likeliest of a place, a word that is less likely is not tried
_LEAST = 1e-30  # chance of a blank, so that something is always possible
_FACTOR = 6364136223846793005  # of numbers that tell beginnings apart


class Places(NamedTuple):
    """The chances at T places of B sentences: of a blank, and of K words, best first.

    After a sentence's last place only blanks are left.
    """

    blank: Tensor  # (B, T)
    words: Tensor  # (B, T, K)
    chances: Tensor  # (B, T, K)


def best_readings(places: Places, beam_size: int) -> Beams:
    """The likeliest over all paths, best first, as far as so many kept beginnings lead to them."""
    blank, words, chances = places
    likeliest = torch.maximum(blank, chances[..., 0])[..., None]
    chances = chances.masked_fill(chances <= _UNLIKELY * likeliest, 0.0)
    beams = Beams.of(blank, beam_size)
    columns = (part.unbind(1) for part in (blank.clamp(min=_LEAST), words, chances))
    for place in zip(*columns, strict=True):
        beams.go_on(*place)
    return beams


@dataclass
class Beams:
    """The W likeliest beginnings of each sentence; each (B, W) unless it says otherwise."""

    after: Tensor  # the chance of paths that end in a blank, beside the scale
    inside: Tensor  # and of those that end in the last word
    scale: Tensor  # (B,) the logarithm of what all chances were divided by, lest they vanish
    names: Tensor  # a number for each beginning, made of its words
    last: Tensor  # its last word
    words: Tensor  # (B, W, T) all of them
    lengths: Tensor  # of which so many are read

    @staticmethod
    def of(blank: Tensor, beam_size: int) -> Beams:
        """Nothing is read yet; all beams but one are not there."""
        (sentences, length), device = blank.shape, blank.device
        none = torch.zeros(sentences, beam_size, dtype=torch.long, device=device)
        after = none.to(blank.dtype)
        after[:, 0] = 1.0
        return Beams(
            after=after,
            inside=torch.zeros_like(after),
            scale=torch.zeros_like(after[:, 0]),
            names=none - torch.arange(beam_size, device=device),  # so that no two are one
            last=none - 1,
            words=none[..., None].repeat(1, 1, length),
            lengths=none,
        )

    @property
    def totals(self) -> Tensor:
        """The log-probability of each; -inf: there is none. (B, W)"""
        return (self.after + self.inside).log() + self.scale[:, None]

    def go_on(self, blank: Tensor, words: Tensor, chances: Tensor) -> None:
        """One place: the chance of a blank (B,), words and their chances (B, K)."""
        both = self.after + self.inside
        again = words[:, None] == self.last[..., None]  # (B, W, K)
        grown = torch.where(again, self.after[..., None], both[..., None]) * chances[:, None]
        names = self.names[..., None] * _FACTOR + words[:, None] + 1
        known = names[..., None] == self.names[:, None, None]  # (B, W, K, W) is that beam already
        after = both * blank[:, None]
        inside = self.inside * (again * chances[:, None]).sum(-1)
        inside = inside + (known * grown[..., None]).sum((1, 2))
        grown = grown.masked_fill(known.any(-1), -1.0)  # never taken
        self._keep(after, inside, grown.flatten(1), names.flatten(1), words)

    def _keep(
        self, after: Tensor, inside: Tensor, grown: Tensor, names: Tensor, words: Tensor
    ) -> None:
        """The likeliest of what stays (B, W) and of what grew (B, W * K)."""
        width, several = after.shape[1], words.shape[1]
        totals, chosen = torch.cat([after + inside, grown], 1).topk(width, dim=1)
        grew = chosen >= width
        number = (chosen - width).clamp(min=0)  # among those that grew
        parents = torch.where(grew, number // several, chosen)
        new = words.gather(1, number % several)
        top = totals[:, :1]
        self.after = after.gather(1, parents).masked_fill(grew, 0.0) / top
        self.inside = torch.where(grew, totals, inside.gather(1, parents)) / top
        self.scale = self.scale + top[:, 0].log()
        self.names = torch.where(grew, names.gather(1, number), self.names.gather(1, parents))
        self.last = torch.where(grew, new, self.last.gather(1, parents))
        lengths = self.lengths.gather(1, parents)
        self.words = self.words.gather(1, parents[..., None].expand_as(self.words))
        self.words.scatter_(2, lengths[..., None], new[..., None])  # read only where one grew
        self.lengths = lengths + grew

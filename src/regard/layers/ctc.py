"""Connectionist temporal classification (Graves et al., 2006): more places than words.

A path writes a word or a blank at each place; it reads as what is left when repetitions are taken
together and blanks are dropped: `a a - a b b -` reads `a a b`. A sentence is as likely as all
paths that read so, together:

    p(y | x) = sum over paths z that read y of  prod_t p(z_t | x)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.ragged import Lengths, Ragged
from regard.devices import has_triton
from regard.text.special import SPECIAL

BLANK = SPECIAL.start  # which no sentence has inside


def negative_log_likelihood(log_probs: Tensor, places: Lengths, targets: Ragged) -> Tensor:
    """`-log p(y | x)` of each sentence; 0 where it has too few places for any path, or is filler.

    log_probs (N, V) in float32 at places of so many sentences; targets end in marks that nobody
    writes. -> (B,)
    """
    words, counts = _words(targets)
    if log_probs.is_cuda and has_triton():
        from regard.layers.ctc_kernel import all_paths

        states, skips = _states(words)
        scores = places.pad(log_probs.gather(1, states[places.sentence]))  # (B, T, K)
        found = all_paths(scores, states, skips, places.lengths, counts)
    else:
        padded = places.pad(log_probs).transpose(0, 1)  # (T, B, V): for this call only
        lengths = places.host, counts.cpu()
        found = F.ctc_loss(
            padded, words, *lengths, blank=BLANK, reduction="none", zero_infinity=True
        )
    return torch.where(is_real(targets), found, 0.0)


def is_real(targets: Ragged) -> Tensor:
    """Which sentences are there to be learned, and not only to fill a shape. (B,)"""
    return targets.lengths.pad(targets.tokens)[:, 0] != SPECIAL.pad


@torch.no_grad()
def best_paths(log_probs: Tensor, places: Lengths, targets: Ragged) -> Tensor:
    """The likeliest path of each sentence that reads as its target (Viterbi). (N, V) -> (N,)

    Where there are too few places, as much of it as fits.
    """
    words, counts = _words(targets)
    states, skips = _states(words)  # (B, K) both
    scores = places.pad(log_probs.gather(1, states[places.sentence]))  # (B, T, K)
    if log_probs.is_cuda and has_triton():
        from regard.layers.ctc_kernel import best_states
    else:
        best_states = plain_best_states
    chosen = best_states(scores, skips, places.lengths, counts)
    return places.unpad(states.gather(1, chosen))


def plain_best_states(scores: Tensor, skips: Tensor, places: Tensor, labels: Tensor) -> Tensor:
    """The state at each place of the likeliest path through all labels.

    scores (B, T, K), skips (B, K), places and labels (B,) -> (B, T)
    """
    reached = torch.full_like(scores[:, 0], -torch.inf)
    reached[:, :2] = scores[:, 0, :2]
    steps = []  # how many states each place lies behind the one before it
    for place in range(1, scores.shape[1]):
        before = torch.stack([reached, _behind(reached, 1), _behind(reached, 2)])
        before[2].masked_fill_(~skips, -torch.inf)
        best, step = before.max(0)
        inside = (place < places)[:, None]
        reached = torch.where(inside, best + scores[:, place], reached)
        steps.append(step * inside)
    path = [_last_states(reached, labels)]
    for step in reversed(steps):
        path.append(path[-1] - step.gather(1, path[-1]))
    return torch.cat(path[::-1], 1)


def _words(targets: Ragged) -> tuple[Tensor, Tensor]:
    """Targets without their end marks, padded, and how many words each has. (B, L), (B,)"""
    padded = targets.lengths.pad(targets.tokens)
    return padded[:, :-1], (targets.lengths.lengths - 1).clamp(min=0)


def _states(words: Tensor) -> tuple[Tensor, Tensor]:
    """Blanks and words in turns, and whether each state may follow the one before last. (B, K)

    A blank may be left out between two words, unless they are the same.
    """
    states = words.new_full((len(words), 2 * words.shape[1] + 1), BLANK)
    states[:, 1::2] = words
    skips = torch.zeros_like(states, dtype=torch.bool)
    skips[:, 3::2] = words[:, 1:] != words[:, :-1]
    return states, skips


def _behind(reached: Tensor, count: int) -> Tensor:
    """What was reached so many states before. (B, K)"""
    return F.pad(reached, (count, 0), value=-torch.inf)[:, : reached.shape[1]]


def _last_states(reached: Tensor, labels: Tensor) -> Tensor:
    """Of the states that are reached, the best end: the last label or the blank after it. (B, 1)"""
    states = torch.arange(reached.shape[1], device=reached.device)
    ends = (states >= 2 * labels[:, None] - 1) & (states <= 2 * labels[:, None])
    possible = ends & reached.isfinite()
    # With too few places no end is reached: then the furthest state that is.
    furthest = torch.where(reached.isfinite(), states.float(), -torch.inf)
    scores = reached.masked_fill(~possible, -torch.inf)
    scores = torch.where(possible.any(1, keepdim=True), scores, furthest)
    return scores.argmax(1, keepdim=True)


def kept(path: Tensor, places: Lengths) -> Tensor:
    """Which places of paths (N,) are read: no blanks, and no repetitions of the place before."""
    repeated = (path == path.roll(1)) & (places.positions > 0)
    return (path != BLANK) & ~repeated

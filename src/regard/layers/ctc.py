"""Connectionist temporal classification (Graves et al., 2006).

A path has a token or a blank at each position. It is collapsed by merging repetitions and then
removing blanks: `a a - a b b -` becomes `a a b`. The probability of a sentence is the sum over all
paths that collapse to it:

    p(y | x) = sum over paths z that collapse to y of  prod_t p(z_t | x)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.ragged import Lengths, Ragged
from regard.devices import has_triton
from regard.text.special import SPECIAL

BLANK = SPECIAL.bos  # which does not occur inside sentences


def negative_log_likelihood(log_probs: Tensor, lengths: Lengths, targets: Ragged) -> Tensor:
    """`-log p(y | x)` of each sentence; 0 if no path fits, or if it is filler.

    log_probs (N, V) in float32, lengths: positions of each sentence, targets: with EOS, which is
    not predicted. -> (B,)
    """
    labels, label_lengths = _labels(targets)
    if log_probs.is_cuda and has_triton():
        from regard.layers.ctc_kernel import ctc_loss

        states, skips = _states(labels)
        scores = lengths.pad(log_probs.gather(1, states[lengths.sentence]))  # (B, T, K)
        nll = ctc_loss(scores, states, skips, lengths.lengths, label_lengths)
    else:
        padded = lengths.pad(log_probs).transpose(0, 1)  # (T, B, V)
        host_lengths = lengths.host, label_lengths.cpu()
        nll = F.ctc_loss(
            padded, labels, *host_lengths, blank=BLANK, reduction="none", zero_infinity=True
        )
    return torch.where(is_not_filler(targets), nll, 0.0)


def is_not_filler(targets: Ragged) -> Tensor:
    """Whether each sentence is an example rather than a filler sentence. (B,)"""
    return targets.lengths.pad(targets.tokens)[:, 0] != SPECIAL.pad


@torch.no_grad()
def best_paths(log_probs: Tensor, lengths: Lengths, targets: Ragged) -> Tensor:
    """The best path of each sentence that collapses to its target (Viterbi). (N, V) -> (N,)

    With too few positions, the path covers a prefix of the target.
    """
    labels, label_lengths = _labels(targets)
    states, skips = _states(labels)  # (B, K) both
    scores = lengths.pad(log_probs.gather(1, states[lengths.sentence]))  # (B, T, K)
    if log_probs.is_cuda and has_triton():
        from regard.layers.ctc_kernel import viterbi
    else:
        viterbi = eager_viterbi
    path = viterbi(scores, skips, lengths.lengths, label_lengths)
    return lengths.unpad(states.gather(1, path))


def eager_viterbi(
    scores: Tensor, skips: Tensor, input_lengths: Tensor, label_lengths: Tensor
) -> Tensor:
    """The state at each position of the best path through all labels.

    scores (B, T, K), skips (B, K), input_lengths and label_lengths (B,) -> (B, T)
    """
    total = torch.full_like(scores[:, 0], -torch.inf)
    total[:, :2] = scores[:, 0, :2]
    steps = []  # back-pointers: the number of states from the previous position
    for position in range(1, scores.shape[1]):
        candidates = torch.stack([total, _shift(total, 1), _shift(total, 2)])
        candidates[2].masked_fill_(~skips, -torch.inf)
        best, step = candidates.max(0)
        inside = (position < input_lengths)[:, None]
        total = torch.where(inside, best + scores[:, position], total)
        steps.append(step * inside)
    path = [_last_states(total, label_lengths)]
    for step in reversed(steps):
        path.append(path[-1] - step.gather(1, path[-1]))
    return torch.cat(path[::-1], 1)


def _labels(targets: Ragged) -> tuple[Tensor, Tensor]:
    """Targets without EOS, padded, and their lengths. (B, L), (B,)"""
    padded = targets.lengths.pad(targets.tokens)
    return padded[:, :-1], (targets.lengths.lengths - 1).clamp(min=0)


def _states(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Alternating blanks and labels, and whether each state may skip the one before. (B, K)

    A blank between two labels may be skipped unless they are the same.
    """
    states = labels.new_full((len(labels), 2 * labels.shape[1] + 1), BLANK)
    states[:, 1::2] = labels
    skips = torch.zeros_like(states, dtype=torch.bool)
    skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]
    return states, skips


def _shift(scores: Tensor, count: int) -> Tensor:
    """The scores of the states `count` before. (B, K)"""
    return F.pad(scores, (count, 0), value=-torch.inf)[:, : scores.shape[1]]


def _last_states(total: Tensor, label_lengths: Tensor) -> Tensor:
    """The best final state: the last label or the blank after it. (B, 1)"""
    states = torch.arange(total.shape[1], device=total.device)
    ends = (states >= 2 * label_lengths[:, None] - 1) & (states <= 2 * label_lengths[:, None])
    possible = ends & total.isfinite()
    # With too few positions no final state is reached: take the furthest one that is.
    furthest = torch.where(total.isfinite(), states.float(), -torch.inf)
    scores = total.masked_fill(~possible, -torch.inf)
    scores = torch.where(possible.any(1, keepdim=True), scores, furthest)
    return scores.argmax(1, keepdim=True)


def collapse_mask(path: Tensor, lengths: Lengths) -> Tensor:
    """Which positions of paths (N,) remain when they are collapsed: no blanks or repetitions."""
    repeated = (path == path.roll(1)) & (lengths.positions > 0)
    return (path != BLANK) & ~repeated

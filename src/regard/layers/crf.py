"""A linear-chain conditional random field over label sequences (Lafferty et al., 2001).

The score of a path is the sum of its emission scores and transition scores:

    s(y) = begin[y_1] + sum_t scores[t, y_t] + sum_t follow[y_t-1, y_t] + end[y_T]
    p(y | x) = exp s(y) / sum over paths z of exp s(z)

For IOB labels (B-x, I-x, O), paths with invalid transitions have probability zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.ragged import Lengths, Ragged
from regard.data.spans import is_valid_transition, uses_iob_labels

# Finite, so that the gradients of invalid transitions are 0 and not NaN; its exponential is 0.
_IMPOSSIBLE = -1e30


class Crf(nn.Module):
    """Transition scores: of the first label, of each pair of labels, and of the last label."""

    valid_starts: Tensor
    valid_transitions: Tensor

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        size = len(labels)
        self.begin = nn.Parameter(torch.zeros(size))
        self.follow = nn.Parameter(torch.zeros(size, size))  # (before, after)
        self.end = nn.Parameter(torch.zeros(size))
        starts, transitions = valid_transitions(labels)
        self.register_buffer("valid_starts", starts, persistent=False)
        self.register_buffer("valid_transitions", transitions, persistent=False)

    def negative_log_likelihood(self, scores: Tensor, labels: Ragged) -> Tensor:
        """`-log p(y | x)` of each sentence, 0 if it is empty. (N, L) -> (B,)"""
        scores = _to_float(scores)
        alpha = self._forward(scores, labels.lengths)[-1]
        partition = (alpha + _to_float(self.end)).logsumexp(-1)
        partition = torch.where(labels.lengths.lengths > 0, partition, 0.0)
        return partition - self._path_scores(scores, labels)

    @torch.no_grad()
    def best_paths(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """The labels of the best path of each sentence (Viterbi). (N, L) -> (N,)"""
        if not lengths.total:
            return lengths.lengths.new_zeros(0)
        padded = lengths.pad(_to_float(scores))
        begin, follow = self._transition_scores()
        total = padded[:, 0] + begin
        back_pointers = []
        for position in range(1, lengths.longest):
            best, previous = (total[:, :, None] + follow).max(1)
            inside = (position < lengths.lengths)[:, None]
            total = torch.where(inside, best + padded[:, position], total)
            same = torch.arange(previous.shape[1], device=previous.device)
            back_pointers.append(torch.where(inside, previous, same))
        path = [(total + _to_float(self.end)).argmax(1, keepdim=True)]
        for previous in reversed(back_pointers):
            path.append(previous.gather(1, path[-1]))
        return lengths.unpad(torch.cat(path[::-1], 1))

    @torch.no_grad()
    def marginals(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """The marginal probability of each label at each position. (N, L) -> (N, L)"""
        scores = _to_float(scores)
        if not lengths.total:
            return scores
        forward = lengths.unpad(torch.stack(self._forward(scores, lengths), 1))
        return (forward + self._backward(scores, lengths)).softmax(-1)

    def _forward(self, scores: Tensor, lengths: Lengths) -> list[Tensor]:
        """Forward variables: the log-sum over all paths up to each label. (B, L) per position

        After the end of a sentence, its last variables are repeated.
        """
        padded = lengths.padded_to(max(lengths.longest, 1)).pad(scores)
        begin, follow = self._transition_scores()
        alphas = [padded[:, 0] + begin]
        for position in range(1, lengths.longest):
            alpha = (alphas[-1][:, :, None] + follow).logsumexp(1) + padded[:, position]
            inside = (position < lengths.lengths)[:, None]
            alphas.append(torch.where(inside, alpha, alphas[-1]))
        return alphas

    def _backward(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """Backward variables: the log-sum over all paths after each label. (N, L)"""
        padded = lengths.pad(scores)
        _, follow = self._transition_scores()
        end = _to_float(self.end).expand(len(lengths), -1)
        betas = [end]
        for position in reversed(range(1, lengths.longest)):
            beta = (follow + (padded[:, position] + betas[-1])[:, None]).logsumexp(2)
            betas.append(torch.where((position < lengths.lengths)[:, None], beta, end))
        return lengths.unpad(torch.stack(betas[::-1], 1))

    def _path_scores(self, scores: Tensor, labels: Ragged) -> Tensor:
        """The score of the label sequence of each sentence. (B,)"""
        ids, lengths = labels.tokens, labels.lengths
        begin, follow = self._transition_scores()
        first = lengths.positions == 0
        last = lengths.positions == lengths.lengths[lengths.sentence] - 1
        total = scores.gather(1, ids[:, None]).squeeze(1)
        total = total + torch.where(first, begin[ids], follow[ids.roll(1), ids])
        return lengths.sums(total + torch.where(last, _to_float(self.end)[ids], 0.0))

    def _transition_scores(self) -> tuple[Tensor, Tensor]:
        """The scores of first labels (L,) and transitions (L, L); invalid ones are masked."""
        begin = _to_float(self.begin).masked_fill(~self.valid_starts, _IMPOSSIBLE)
        return begin, _to_float(self.follow).masked_fill(~self.valid_transitions, _IMPOSSIBLE)


def valid_transitions(labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Which labels may start a sentence, (L,), and which may follow each other, (L, L).

    Only IOB labels are restricted.
    """
    free = not uses_iob_labels(labels)
    begin = [free or is_valid_transition(label, None) for label in labels]
    follow = [
        [free or is_valid_transition(label, previous) for label in labels] for previous in labels
    ]
    return torch.tensor(begin), torch.tensor(follow)


def _to_float(values: Tensor) -> Tensor:
    """In float32 at least, which sums over many positions and paths need."""
    return values.to(torch.promote_types(values.dtype, torch.float32))

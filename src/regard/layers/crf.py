"""A linear-chain conditional random field: labels that are chosen together (Lafferty et al., 2001).

A path gives each word a label. It scores what its words score, and what each label scores after the
one before it; a sentence's label sequence is as likely as its share among all paths:

    s(y) = begin[y_1] + sum_t scores[t, y_t] + sum_t follow[y_t-1, y_t] + end[y_T]
    p(y | x) = exp s(y) / sum over paths z of exp s(z)

Labels of spans (B-x, I-x, O) may not follow one another in any order; a path that is not legal has
no share, and is never found.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.data.ragged import Lengths, Ragged
from regard.data.spans import mark_spans, may_follow

# Finite, so that what cannot be reached has a gradient of 0 and not of NaN; its exponential is 0.
_IMPOSSIBLE = -1e30


class Crf(nn.Module):
    """Scores of a label at the beginning, after another and at the end, on top of words' own."""

    may_begin: Tensor
    may_follow: Tensor

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__()
        size = len(labels)
        self.begin = nn.Parameter(torch.zeros(size))
        self.follow = nn.Parameter(torch.zeros(size, size))  # (before, after)
        self.end = nn.Parameter(torch.zeros(size))
        begin, follow = legal(labels)
        self.register_buffer("may_begin", begin, persistent=False)
        self.register_buffer("may_follow", follow, persistent=False)

    def negative_log_likelihood(self, scores: Tensor, labels: Ragged) -> Tensor:
        """`-log p(y | x)` of each sentence, 0 if it has no words. (N, L) -> (B,)"""
        scores = _precise(scores)
        reached = self._forward(scores, labels.lengths)[-1]
        total = (reached + _precise(self.end)).logsumexp(-1)
        total = torch.where(labels.lengths.lengths > 0, total, 0.0)
        return total - self._path_scores(scores, labels)

    @torch.no_grad()
    def best_paths(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """The labels of each sentence's likeliest path (Viterbi). (N, L) -> (N,)"""
        if not lengths.total:
            return lengths.lengths.new_zeros(0)
        padded = lengths.pad(_precise(scores))  # for this call only
        begin, follow = self._masked()
        reached = padded[:, 0] + begin
        origins = []  # from which label each label of the next place is best reached
        for place in range(1, lengths.longest):
            best, origin = (reached[:, :, None] + follow).max(1)
            inside = (place < lengths.lengths)[:, None]
            reached = torch.where(inside, best + padded[:, place], reached)
            same = torch.arange(origin.shape[1], device=origin.device)
            origins.append(torch.where(inside, origin, same))
        path = [(reached + _precise(self.end)).argmax(1, keepdim=True)]
        for origin in reversed(origins):
            path.append(origin.gather(1, path[-1]))
        return lengths.unpad(torch.cat(path[::-1], 1))

    @torch.no_grad()
    def marginals(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """How likely each label is at each word, over all paths. (N, L) -> (N, L)"""
        scores = _precise(scores)
        if not lengths.total:
            return scores
        forward = lengths.unpad(torch.stack(self._forward(scores, lengths), 1))
        return (forward + self._backward(scores, lengths)).softmax(-1)

    def _forward(self, scores: Tensor, lengths: Lengths) -> list[Tensor]:
        """Place by place, the log sum over all paths up to each label there. (B, L) each

        After a sentence's end, what it was at the end.
        """
        padded = lengths.up_to(max(lengths.longest, 1)).pad(scores)  # for this call only
        begin, follow = self._masked()
        reached = [padded[:, 0] + begin]
        for place in range(1, lengths.longest):
            found = (reached[-1][:, :, None] + follow).logsumexp(1) + padded[:, place]
            inside = (place < lengths.lengths)[:, None]
            reached.append(torch.where(inside, found, reached[-1]))
        return reached

    def _backward(self, scores: Tensor, lengths: Lengths) -> Tensor:
        """The log sum over all paths that go on after each label at each place. (N, L)"""
        padded = lengths.pad(scores)
        _, follow = self._masked()
        end = _precise(self.end).expand(len(lengths), -1)
        left = [end]
        for place in reversed(range(1, lengths.longest)):
            found = (follow + (padded[:, place] + left[-1])[:, None]).logsumexp(2)
            left.append(torch.where((place < lengths.lengths)[:, None], found, end))
        return lengths.unpad(torch.stack(left[::-1], 1))

    def _path_scores(self, scores: Tensor, labels: Ragged) -> Tensor:
        """What each sentence's own labels score. (B,)"""
        own, places = labels.tokens, labels.lengths
        begin, follow = self._masked()
        first = places.positions == 0
        last = places.positions == places.lengths[places.sentence] - 1
        found = scores.gather(1, own[:, None]).squeeze(1)
        found = found + torch.where(first, begin[own], follow[own.roll(1), own])
        return places.sums(found + torch.where(last, _precise(self.end)[own], 0.0))

    def _masked(self) -> tuple[Tensor, Tensor]:
        """The scores of labels at the beginning, (L,), and after each other, (L, L)."""
        begin = _precise(self.begin).masked_fill(~self.may_begin, _IMPOSSIBLE)
        return begin, _precise(self.follow).masked_fill(~self.may_follow, _IMPOSSIBLE)


def legal(labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Which labels may begin a sentence, (L,), and which may follow each other, (L, L).

    All may, unless they mark spans.
    """
    free = not mark_spans(labels)
    begin = [free or may_follow(label, None) for label in labels]
    follow = [[free or may_follow(label, before) for label in labels] for before in labels]
    return torch.tensor(begin), torch.tensor(follow)


def _precise(values: Tensor) -> Tensor:
    """In float32 at least: sums over many words and paths need it, whatever made the scores."""
    return values.to(torch.promote_types(values.dtype, torch.float32))

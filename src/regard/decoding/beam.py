"""Beam search: at each step, keep the `beam_size` best unfinished beginnings of each sentence.

    advance   the model reads the last tokens and scores the next ones
    adjust    rules forbid what may not be written
    rank      the best continuations of each sentence, over all its beams
    retire    continuations that end are finished hypotheses
    keep      the best of the others are the new beams

A sentence is done when it has `beam_size` finished hypotheses that no beam, as it stands, could
beat, or when no beam is left; then it leaves the batch. Nothing in a sentence's search depends on
another sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.hypothesis import Hypothesis, best_first, finished, normalized
from regard.decoding.rules import Rules
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL


@dataclass(frozen=True)
class Beams:
    """The unfinished beginnings of A sentences, W for each."""

    tokens: Tensor  # (A, W, t)
    log_probs: Tensor  # (A, W)

    @staticmethod
    def empty(sentences: int, device: torch.device) -> Beams:
        """One empty beginning for each sentence."""
        tokens = torch.empty(sentences, 1, 0, dtype=torch.long, device=device)
        return Beams(tokens, torch.zeros(sentences, 1, device=device))


@dataclass(frozen=True)
class Candidates:
    """Continuations of each sentence, best first."""

    log_probs: Tensor  # (A, C)
    parents: Tensor  # (A, C) the beam that is continued
    tokens: Tensor  # (A, C) by what


@torch.inference_mode()
def beam_search(
    model: Autoregressive[S],
    source: Ragged,
    rules: Rules,
    *,
    beam_size: int,
    length_penalty: float = 1.0,
) -> list[list[Hypothesis]]:
    """Up to `beam_size` hypotheses for each source sentence, best first."""
    found: list[list[Hypothesis]] = [[] for _ in range(len(source.lengths))]
    alive = list(range(len(found)))
    state = model.start(source)
    tokens = model.first_tokens(len(found))
    beams = Beams.empty(len(found), tokens.device)
    for step in range(int(rules.limits.max())):
        logits, state = model.step(tokens, state)
        log_probs = logits.float().log_softmax(-1).unflatten(0, beams.log_probs.shape)
        candidates = rank(beams, rules.adjust(log_probs, step), beam_size)
        retire(beams, candidates, beam_size, length_penalty, [found[i] for i in alive])
        kept, parents = keep(beams, candidates, beam_size)
        going = [
            row
            for row, best in enumerate(kept.log_probs[:, 0].tolist())
            if can_improve(best, step + 1, found[alive[row]], beam_size, length_penalty)
        ]
        if not going:
            break
        rows = torch.tensor(going, device=tokens.device)
        beams = Beams(kept.tokens[rows], kept.log_probs[rows])
        state, rules = state.select(parents[rows].flatten()), rules.select(rows)
        tokens = beams.tokens[:, :, -1].flatten()
        alive = [alive[row] for row in going]
    return [best_first(ended)[:beam_size] for ended in found]


def rank(beams: Beams, log_probs: Tensor, beam_size: int) -> Candidates:
    """The best continuations: twice the beam, for at most half of them can be ends.

    log_probs (A, W, V) -> C = min(2 beam_size, W V) candidates
    """
    totals = (beams.log_probs[:, :, None] + log_probs).flatten(1)  # (A, W V)
    best, places = totals.topk(min(2 * beam_size, totals.shape[1]), dim=1)
    words = log_probs.shape[-1]
    return Candidates(best, places // words, places % words)


def retire(
    beams: Beams,
    candidates: Candidates,
    beam_size: int,
    length_penalty: float,
    found: list[list[Hypothesis]],
) -> None:
    """Move the ends among the `beam_size` best candidates to the finished hypotheses."""
    best = candidates.log_probs[:, :beam_size]
    ends = (candidates.tokens[:, :beam_size] == SPECIAL.end) & (best > -torch.inf)
    for row, column in ends.nonzero().tolist():
        written = beams.tokens[row, candidates.parents[row, column]].tolist()
        found[row].append(
            finished([*written, SPECIAL.end], float(best[row, column]), length_penalty)
        )


def keep(beams: Beams, candidates: Candidates, beam_size: int) -> tuple[Beams, Tensor]:
    """The best candidates that go on, and the row of the state that each continues. (A, W)"""
    width = beams.log_probs.shape[1]
    room = min(beam_size, candidates.tokens.shape[1] - width)  # each beam has one end at most
    places = (candidates.tokens == SPECIAL.end).int().argsort(dim=1, stable=True)[:, :room]
    parents, tokens = candidates.parents.gather(1, places), candidates.tokens.gather(1, places)
    past = beams.tokens.gather(1, parents[:, :, None].expand(-1, -1, beams.tokens.shape[2]))
    kept = Beams(torch.cat([past, tokens[:, :, None]], 2), candidates.log_probs.gather(1, places))
    first_rows = torch.arange(len(parents), device=parents.device)[:, None] * width
    return kept, first_rows + parents


def can_improve(
    log_prob: float, length: int, found: list[Hypothesis], beam_size: int, length_penalty: float
) -> bool:
    """Whether the best beam, scored as it stands, would be among the best finished hypotheses."""
    if log_prob == -torch.inf:
        return False
    if len(found) < beam_size:
        return True
    return normalized(log_prob, length, length_penalty) > best_first(found)[beam_size - 1].score

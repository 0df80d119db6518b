"""What a teacher thinks of what a model writes all at once (Gu et al., 2018, arXiv:1711.02281).

    L_RKL(f) = - sum_t sum_y p(y_t = y | f, x) log p_teacher(y_t = y | what was written before, x)
    L_RL     = (R(drawn f) - R(mean f)) log p(drawn f | x)        by REINFORCE
    L_BP     = L_RKL(f of the alignments)                         by gradients

The first says how well the words that a model finds likely agree with the teacher; the second makes
fertilities likelier under which they agree better; the third makes words agree. The risk R is L_RKL
and how unlikely the teacher finds the end, for each place: the paper takes L_RKL alone and summed,
which praises what is short for being short.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.data.batch import Batch
from regard.data.ragged import Lengths, Ragged
from regard.layers.embedding import Projection
from regard.models.base import AutoregressiveModel
from regard.models.nonautoregressive import (
    FertilityPredictions,
    NonAutoregressive,
    never_silent,
)
from regard.text.special import SPECIAL

_MARKS = (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, SPECIAL.end)


def teacher_risk(
    model: NonAutoregressive,
    teacher: AutoregressiveModel,
    source: Ragged,
    said: FertilityPredictions,
) -> Tensor:
    """`L_RL + L_BP`, summed over a batch for which the model predicted this."""
    assert said.lengths is not None
    log_probs = said.fertilities.logits.float().log_softmax(-1)
    drawn = torch.multinomial(log_probs.detach().exp(), 1)  # (source tokens, 1)
    with torch.no_grad():
        model.eval()  # dropout would only add noise
        memory = model.encode(source)
        risk = _risk(model, teacher, source, memory, drawn.squeeze(1))
        usual = _risk(model, teacher, source, memory, _mean(log_probs))
        model.train()
    chances = source.lengths.sums(log_probs.gather(1, drawn).squeeze(1))  # (B,)
    by_chance = ((risk - usual) * chances).sum()
    found, _ = disagreement(teacher, source, said.hidden, said.project, said.lengths)
    return by_chance + found.sum()


def _mean(log_probs: Tensor) -> Tensor:
    """The mean fertility of each source token, rounded. (N, classes) -> (N,)"""
    classes = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (log_probs.exp() * classes).sum(-1).round().long()


def _risk(
    model: NonAutoregressive,
    teacher: AutoregressiveModel,
    source: Ragged,
    memory: Tensor,
    counts: Tensor,
) -> Tensor:
    """`R` of each sentence under some fertilities. (B,)"""
    counts = never_silent(counts, source.lengths)
    lengths = Lengths.of(source.lengths.sums(counts).tolist()).to(counts.device)
    hidden = model.decode(source.copied(counts, lengths), memory, source.lengths)
    found, ends = disagreement(teacher, source, hidden, model.projection, lengths)
    return (found + ends) / (lengths.lengths + 1)


def disagreement(
    teacher: AutoregressiveModel,
    source: Ragged,
    hidden: Tensor,
    project: Projection,
    lengths: Lengths,
) -> tuple[Tensor, Tensor]:
    """`L_RKL` of each sentence, given what the model says at its places, and of its end.

    (N, D) -> (B,), (B,)
    """
    log_probs = project(hidden).float().log_softmax(-1)
    with torch.no_grad():
        scores = log_probs.clone()
        for mark in _MARKS:
            scores[:, mark] = -torch.inf
        written = Ragged(scores.argmax(-1), lengths).with_ends(SPECIAL.end)
        answer = teacher(Batch(source, written))
        judged = answer.project(answer.hidden).float().log_softmax(-1)
        ends = -judged[written.lengths.offsets[1:].long() - 1, SPECIAL.end]
    found = -(log_probs.exp() * judged[lengths.before_ends]).sum(-1)
    return lengths.sums(found), ends

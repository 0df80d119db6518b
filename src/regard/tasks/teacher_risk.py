"""Fine-tuning of a fertility model with a teacher (Gu et al., 2018, arXiv:1711.02281).

    L_RKL(f) = - sum_t sum_y p(y_t = y | f, x) log p_teacher(y_t = y | output_<t, x)
    L_RL     = (R(sampled f) - R(mean f)) log p(sampled f | x)        by REINFORCE
    L_BP     = L_RKL(f of the alignments)                             by backpropagation

L_RKL is the reverse KL term between model and teacher, L_RL trains the fertilities, and L_BP trains
the tokens. The risk R is the mean over positions of L_RKL and of the teacher's negative
log-likelihood of EOS; the paper's sum of L_RKL alone favours short outputs.
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
    ensure_one_token,
)
from regard.text.special import SPECIAL

_SPECIAL_TOKENS = (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos, SPECIAL.eos)


def teacher_risk(
    model: NonAutoregressive,
    teacher: AutoregressiveModel,
    source: Ragged,
    predictions: FertilityPredictions,
) -> Tensor:
    """`L_RL + L_BP`, summed over a batch; `predictions` are the model's for that batch."""
    assert predictions.lengths is not None
    log_probs = predictions.fertilities.logits.float().log_softmax(-1)
    sampled = torch.multinomial(log_probs.detach().exp(), 1)  # (source tokens, 1)
    with torch.no_grad():
        model.eval()  # dropout would only add noise
        encoder_output = model.encode(source)
        risk = _risk(model, teacher, source, encoder_output, sampled.squeeze(1))
        baseline = _risk(model, teacher, source, encoder_output, _mean_fertilities(log_probs))
        model.train()
    sample_log_probs = source.lengths.sums(log_probs.gather(1, sampled).squeeze(1))  # (B,)
    reinforce = ((risk - baseline) * sample_log_probs).sum()
    kl, _ = reverse_kl(
        teacher, source, predictions.hidden, predictions.project, predictions.lengths
    )
    return reinforce + kl.sum()


def _mean_fertilities(log_probs: Tensor) -> Tensor:
    """The mean fertility of each source token, rounded. (N, classes) -> (N,)"""
    classes = torch.arange(log_probs.shape[1], device=log_probs.device)
    return (log_probs.exp() * classes).sum(-1).round().long()


def _risk(
    model: NonAutoregressive,
    teacher: AutoregressiveModel,
    source: Ragged,
    encoder_output: Tensor,
    fertilities: Tensor,
) -> Tensor:
    """The risk `R` of each sentence for given fertilities. (B,)"""
    fertilities = ensure_one_token(fertilities, source.lengths)
    lengths = Lengths.of(source.lengths.sums(fertilities).tolist()).to(fertilities.device)
    inputs = source.repeat_tokens(fertilities, lengths)
    hidden = model.decode(inputs, encoder_output, source.lengths)
    kl, eos_nll = reverse_kl(teacher, source, hidden, model.projection, lengths)
    return (kl + eos_nll) / (lengths.lengths + 1)


def reverse_kl(
    teacher: AutoregressiveModel,
    source: Ragged,
    hidden: Tensor,
    project: Projection,
    lengths: Lengths,
) -> tuple[Tensor, Tensor]:
    """`L_RKL` of each sentence by the model's hidden states, and the teacher's NLL of EOS.

    (N, D) -> (B,), (B,)
    """
    log_probs = project(hidden).float().log_softmax(-1)
    with torch.no_grad():
        scores = log_probs.clone()
        for token in _SPECIAL_TOKENS:
            scores[:, token] = -torch.inf
        output = Ragged(scores.argmax(-1), lengths).with_eos(SPECIAL.eos)
        predictions = teacher(Batch(source, output))
        teacher_log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
        eos_nll = -teacher_log_probs[output.lengths.offsets[1:].long() - 1, SPECIAL.eos]
    kl = -(log_probs.exp() * teacher_log_probs[lengths.positions_before_eos]).sum(-1)
    return lengths.sums(kl), eos_nll

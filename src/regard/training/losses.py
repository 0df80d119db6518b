"""Losses: sums over tokens, which are divided by the number of tokens of the whole update.

Targets that are `SPECIAL.pad` are padding and do not contribute to any loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.select import reinforce
from regard.data.batch import Distributions
from regard.data.ragged import Ragged
from regard.devices import has_triton
from regard.layers.ctc import is_not_filler, negative_log_likelihood
from regard.models.labelling import LabelPredictions
from regard.models.masked import SentencePairPredictions
from regard.models.nonautoregressive import NO_FERTILITY, CtcPredictions
from regard.models.protocol import ClassLogits, Predictions
from regard.text.special import SPECIAL
from regard.training.loss_chunks import chunked_loss, divergence


@dataclass(frozen=True)
class Loss:
    """Losses, summed over the tokens of a batch."""

    total: Tensor  # the loss to minimize
    nll: Tensor  # negative log-likelihood without smoothing, for perplexity


def token_loss(
    predictions: Predictions, smoothing: float = 0.0, r_drop_weight: float | None = None
) -> Loss:
    """Cross-entropy with label smoothing: `1 - smoothing` on the target, the rest on all tokens.

    With an R-Drop weight (Liang et al., 2021, arXiv:2106.14448), the batch contains two passes: the
    mean of both losses, and the divergence between the passes. The paper adds
    `weight / 2 * (KL(p || q) + KL(q || p))` to the sum of both losses; this is half of that, to be
    comparable with a single pass. No logits are kept in float32.
    """
    hidden, targets, project = predictions.hidden, predictions.targets, predictions.project
    if _has_kernel(hidden):
        from regard.training.loss_kernel import fused_loss

        return Loss(*fused_loss(project(hidden), targets, smoothing, r_drop_weight))
    weights = project.weight, project.bias
    return Loss(*chunked_loss(hidden, targets, *weights, smoothing, r_drop_weight))


def ctc_loss(
    predictions: CtcPredictions, smoothing: float = 0.0, r_drop_weight: float | None = None
) -> Loss:
    """CTC: the negative log-likelihood of all paths that collapse to the targets.

    Smoothing adds a uniform term at every position; R-Drop compares the positions of two passes,
    as in `token_loss`.
    """
    assert predictions.lengths is not None
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    targets = Ragged(predictions.targets, predictions.labels)
    nll = negative_log_likelihood(log_probs, predictions.lengths, targets).sum()
    total, valid = nll, is_not_filler(targets)[predictions.lengths.sentence]  # (N,)
    if smoothing:
        total = (1.0 - smoothing) * nll - smoothing * (valid * log_probs.mean(-1)).sum()
    if r_drop_weight is None:
        return Loss(total, nll.detach())
    kl = (valid.chunk(2)[0] * divergence(*log_probs.chunk(2))).sum()
    return Loss(total / 2 + r_drop_weight / 4 * kl, nll.detach() / 2)


def crf_loss(predictions: LabelPredictions) -> Loss:
    """CRF: the negative log-likelihood of the label sequence of each sentence."""
    assert predictions.chain is not None
    assert predictions.lengths is not None
    scores = predictions.project(predictions.hidden)[:, 1:]  # class 0 is padding
    valid = is_not_filler(Ragged(predictions.targets, predictions.lengths))
    labels = Ragged((predictions.targets - 1).clamp(min=0), predictions.lengths)
    nll = (valid * predictions.chain.negative_log_likelihood(scores, labels)).sum()
    return Loss(nll, nll.detach())


def add_distillation(
    loss: Loss, predictions: Predictions, teacher: Distributions, weight: float, passes: int
) -> Loss:
    """Word-level distillation (Kim and Rush, 2016, arXiv:1606.07947), interpolated with the loss.

    The term is the cross-entropy with the teacher's distribution over its top tokens, renormalized.
    """
    lengths = predictions.lengths
    assert lengths is not None
    if len(teacher.token_ids) > lengths.total:  # the model does not predict EOS
        teacher = teacher.at(lengths.positions_before_eos)
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    probabilities = teacher.probabilities.float()
    probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    valid = predictions.targets != SPECIAL.pad
    teacher_log_probs = log_probs.gather(1, teacher.token_ids)
    term = -(valid[:, None] * probabilities * teacher_log_probs).sum() / passes
    return Loss((1.0 - weight) * loss.total + weight * term, loss.nll)


def add_fertility_loss(loss: Loss, fertilities: ClassLogits, weight: float, passes: int) -> Loss:
    """Add the cross-entropy of the fertilities, averaged over the passes."""
    logits, targets = fertilities.logits.float(), fertilities.targets
    term = F.cross_entropy(logits, targets, ignore_index=NO_FERTILITY, reduction="sum") / passes
    return Loss(loss.total + weight * term, loss.nll + term.detach())


def add_next_sentence(
    loss: Loss, predictions: SentencePairPredictions, weight: float, passes: int
) -> Loss:
    """Add BERT's next-sentence loss: a mean over sentences beside the mean over tokens.

    The perplexity remains that of tokens.
    """
    next_sentence = predictions.next_sentence
    tokens = (predictions.targets != SPECIAL.pad).sum() / passes
    term = F.cross_entropy(next_sentence.logits.float(), next_sentence.targets) * tokens
    return Loss(loss.total + weight * term, loss.nll)


@torch.no_grad()
def sentence_rewards(predictions: Predictions) -> Tensor:
    """The log-probability of each sentence: the reward of hard attention's samples. (B,)"""
    assert predictions.lengths is not None
    logits = predictions.project(predictions.hidden).float()
    log_probs = logits.log_softmax(-1).gather(1, predictions.targets[:, None]).squeeze(1)
    log_probs = log_probs * (predictions.targets != SPECIAL.pad)
    rewards = torch.zeros(len(predictions.lengths), device=log_probs.device)
    return rewards.index_add_(0, predictions.lengths.sentence, log_probs)


def add_reinforce(loss: Loss, predictions: Predictions) -> Loss:
    """Add the REINFORCE term of sampled attention, if the model samples."""
    if predictions.selection_log_probs is None:
        return loss
    term = reinforce(predictions.selection_log_probs, sentence_rewards(predictions))
    return Loss(loss.total + len(predictions.selection_log_probs) * term, loss.nll)


def _has_kernel(hidden: Tensor) -> bool:
    return hidden.is_cuda and has_triton()

"""What is minimised: sums over real tokens, divided once by the tokens of the whole update.

A target that is `SPECIAL.pad` fills a shape, and has no part in any loss.
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
from regard.layers.ctc import is_real, negative_log_likelihood
from regard.models.labelling import LabelPredictions
from regard.models.masked import SentencePairPredictions
from regard.models.nonautoregressive import NO_FERTILITY, CtcPredictions
from regard.models.protocol import Classes, Predictions
from regard.text.special import SPECIAL
from regard.training.loss_chunks import chunked_loss, divergence


@dataclass(frozen=True)
class Loss:
    """Sums over the tokens of a batch."""

    total: Tensor  # what is minimised
    nll: Tensor  # without smoothing: what perplexity is made of


def token_loss(
    predictions: Predictions, smoothing: float = 0.0, r_drop_weight: float | None = None
) -> Loss:
    """Cross-entropy with targets that keep `1 - smoothing` and spread the rest over all tokens.

    With an R-Drop weight (Liang et al., 2021, arXiv:2106.14448), the batch went through twice: the
    mean of both losses, and how far both passes disagree. The paper adds
    `weight / 2 * (KL(p || q) + KL(q || p))` to the sum of both losses; this is half of that, so
    that it compares with a single pass. No logits are kept in float32.
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
    """CTC: how unlikely all paths together are that read as the targets.

    Smoothing spreads a share of every position over all tokens; R-Drop compares the positions of
    two passes, as in `token_loss`.
    """
    assert predictions.lengths is not None
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    targets = Ragged(predictions.targets, predictions.labels)
    nll = negative_log_likelihood(log_probs, predictions.lengths, targets).sum()
    total, real = nll, is_real(targets)[predictions.lengths.sentence]  # (N,)
    if smoothing:
        total = (1.0 - smoothing) * nll - smoothing * (real * log_probs.mean(-1)).sum()
    if r_drop_weight is None:
        return Loss(total, nll.detach())
    apart = (real.chunk(2)[0] * divergence(*log_probs.chunk(2))).sum()
    return Loss(total / 2 + r_drop_weight / 4 * apart, nll.detach() / 2)


def crf_loss(predictions: LabelPredictions) -> Loss:
    """A CRF: how unlikely the right labels of a sentence are among all that it could have."""
    assert predictions.chain is not None
    assert predictions.lengths is not None
    scores = predictions.project(predictions.hidden)[:, 1:]  # the first would be no label
    real = is_real(Ragged(predictions.targets, predictions.lengths))
    wanted = Ragged((predictions.targets - 1).clamp(min=0), predictions.lengths)
    nll = (real * predictions.chain.negative_log_likelihood(scores, wanted)).sum()
    return Loss(nll, nll.detach())


def with_distributions(
    loss: Loss, predictions: Predictions, likely: Distributions, share: float, passes: int
) -> Loss:
    """A share of the loss is the cross-entropy with a teacher's best few tokens at each position.

    Each counts as likely as the teacher finds it among these: word-level distillation (Kim and
    Rush, 2016, arXiv:1606.07947).
    """
    places = predictions.lengths
    assert places is not None
    if len(likely.words) > places.total:  # a model that writes no ends
        likely = likely.at(places.before_ends)
    log_probs = predictions.project(predictions.hidden).float().log_softmax(-1)
    wanted = likely.probabilities.float()
    wanted = wanted / wanted.sum(-1, keepdim=True)
    real = predictions.targets != SPECIAL.pad
    term = -(real[:, None] * wanted * log_probs.gather(1, likely.words)).sum() / passes
    return Loss((1.0 - share) * loss.total + share * term, loss.nll)


def with_fertilities(loss: Loss, said: Classes, weight: float, passes: int) -> Loss:
    """The loss, and how unlikely the right fertilities are: the mean over some passes."""
    logits, wanted = said.logits.float(), said.wanted
    term = F.cross_entropy(logits, wanted, ignore_index=NO_FERTILITY, reduction="sum") / passes
    return Loss(loss.total + weight * term, loss.nll + term.detach())


def with_next_sentence(
    loss: Loss, predictions: SentencePairPredictions, weight: float, passes: int
) -> Loss:
    """The loss, and the next-sentence term: both count in the mean, as BERT has it.

    Perplexity remains that of tokens.
    """
    said = predictions.next_sentence
    tokens = (predictions.targets != SPECIAL.pad).sum() / passes
    term = F.cross_entropy(said.logits.float(), said.wanted) * tokens
    return Loss(loss.total + weight * term, loss.nll)


@torch.no_grad()
def sentence_rewards(predictions: Predictions) -> Tensor:
    """The log-probability of each sentence: what hard attention's choices are judged by. (B,)"""
    assert predictions.lengths is not None
    logits = predictions.project(predictions.hidden).float()
    gains = logits.log_softmax(-1).gather(1, predictions.targets[:, None]).squeeze(1)
    gains = gains * (predictions.targets != SPECIAL.pad)
    rewards = torch.zeros(len(predictions.lengths), device=gains.device)
    return rewards.index_add_(0, predictions.lengths.sentence, gains)


def with_choices(loss: Loss, predictions: Predictions) -> Loss:
    """The loss, and REINFORCE for what was drawn on the way to it, if anything was."""
    if predictions.choices is None:
        return loss
    term = reinforce(predictions.choices, sentence_rewards(predictions))
    return Loss(loss.total + len(predictions.choices) * term, loss.nll)


def _has_kernel(hidden: Tensor) -> bool:
    return hidden.is_cuda and has_triton()

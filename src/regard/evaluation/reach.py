"""How far back a model learns: the gradient that reaches the first word of a sentence.

    r_t = || d loss_t / d e_1 ||        loss_t = -log p(y_t | y_<t, x)

e_1 is the embedding of the first source word. What a model says at place t can teach it as much
about that word as arrives there: through all states in between where the last state is all that a
decoder knows, straight from the memory where there is attention. That is seen before training; a
trained model also knows which places have nothing to do with the first word.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.models.base import Model, PairModel
from regard.models.protocol import Predictions


def reach(model: Model, batch: Batch) -> Tensor:
    """R of all places of a batch's targets. (B, T), 0 after their ends"""
    assert not model.training
    # cuDNN's recurrence has a backward pass in training only, and dropout with it.
    with _embedded(model) as seen, torch.backends.cudnn.flags(enabled=False):
        said = model(batch)
        at_hidden = _at_hidden(said)
        places, first = batch.target.lengths.positions, batch.source.lengths.offsets[:-1].long()
        found = []
        for place in range(batch.target.lengths.longest):
            here = at_hidden * (places == place)[:, None]
            # Sentences do not see each other, so the gradient of a sum is that of each.
            [gradient] = torch.autograd.grad(said.hidden, seen, here, retain_graph=True)
            found.append(gradient[first].norm(dim=-1))
    return torch.stack(found, 1)


def _at_hidden(said: Predictions) -> Tensor:
    """The gradient of each word's loss at its own hidden state. (N, D)"""
    hidden = said.hidden.detach().requires_grad_()
    loss = F.cross_entropy(said.project(hidden), said.targets, reduction="sum")
    [gradient] = torch.autograd.grad(loss, hidden)
    return gradient


@contextmanager
def _embedded(model: Model) -> Iterator[list[Tensor]]:
    """The embeddings of the source words of the next forward pass: one (N, D)."""
    seen: list[Tensor] = []
    embedding = cast(PairModel, model).source_embedding
    hook = embedding.register_forward_hook(lambda *call: seen.append(call[-1]))
    try:
        yield seen
    finally:
        hook.remove()

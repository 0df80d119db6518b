"""One path a sentence: the likeliest token each time, or whatever else `choose` picks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.data.ragged import Ragged
from regard.decoding.hypothesis import Hypothesis, finished
from regard.decoding.rules import Rules
from regard.models.protocol import Autoregressive, S
from regard.text.special import SPECIAL

Choose = Callable[[Tensor, list[int]], Tensor]


def likeliest(log_probs: Tensor, sentences: list[int]) -> Tensor:
    """log_probs (B, V) -> tokens (B,)"""
    return log_probs.argmax(-1)


@torch.inference_mode()
def greedy_search(
    model: Autoregressive[S],
    source: Ragged,
    rules: Rules,
    *,
    length_penalty: float = 1.0,
    choose: Choose = likeliest,
) -> list[Hypothesis]:
    """A hypothesis for each source sentence; a finished one leaves the batch."""
    state = model.start(source)
    alive = list(range(len(source.lengths)))
    tokens = model.first_tokens(len(alive))
    written: list[list[int]] = [[] for _ in alive]
    totals = [0.0 for _ in alive]
    for step in range(int(rules.limits.max())):
        logits, state = model.step(tokens, state)
        log_probs = rules.adjust(logits.float().log_softmax(-1), step)
        tokens = choose(log_probs, alive)
        gains = log_probs.gather(1, tokens[:, None]).squeeze(1)
        for sentence, token, gain in zip(alive, tokens.tolist(), gains.tolist(), strict=True):
            written[sentence].append(token)
            totals[sentence] += gain
        rows = (tokens != SPECIAL.end).nonzero().squeeze(1)
        if len(rows) == 0:
            break
        if len(rows) < len(alive):
            state, rules, tokens = state.select(rows), rules.select(rows), tokens[rows]
            alive = [alive[row] for row in rows.tolist()]
    return [
        finished(ids, total, length_penalty) for ids, total in zip(written, totals, strict=True)
    ]

"""A task of selecting one key, with soft attention and two estimators of hard attention."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention import (
    Bilinear,
    attend,
    hard,
    reinforce,
    sampled,
    soft,
    straight_through,
    with_log_probs,
)

SYMBOLS, KEYS, ANSWERS = 10, 6, 5


def examples(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries of a symbol, keys of distinct symbols, their answers, and the correct answer."""
    keys = torch.rand(count, SYMBOLS).argsort(-1)[:, :KEYS]
    answers = torch.randint(ANSWERS, (count, KEYS))
    position = torch.randint(KEYS, (count, 1))
    query = F.one_hot(keys.gather(1, position), SYMBOLS).float()  # (B, 1, symbols)
    values = F.one_hot(answers, ANSWERS).float()
    return query, F.one_hot(keys, SYMBOLS).float(), values, answers.gather(1, position).squeeze(1)


def accuracy(estimator: str) -> float:
    """The accuracy after 800 updates."""
    score = Bilinear(SYMBOLS, SYMBOLS)
    optimizer = torch.optim.Adam(score.parameters(), lr=0.05)
    for _ in range(800):
        query, key, value, answer = examples(64)
        log_probs: list[Tensor] = []
        select = {
            "soft": soft,
            "straight through": straight_through(sampled()),
            "reinforce": with_log_probs(sampled(), log_probs),
        }[estimator]
        output = attend(query, key, value, score=score, select=select).squeeze(1)  # (B, answers)
        losses = F.cross_entropy(4 * output, answer, reduction="none")
        loss = losses.mean()
        if estimator == "reinforce":
            loss = reinforce(log_probs[0].squeeze(1), -losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    query, key, value, answer = examples(1000)
    selection = soft if estimator == "soft" else hard
    output = attend(query, key, value, score=score, select=selection).squeeze(1)
    return float((output.argmax(-1) == answer).float().mean())


@pytest.mark.parametrize("estimator", ["soft", "straight through", "reinforce"])
def test_attention_learns_to_select_the_right_key(estimator: str) -> None:
    torch.manual_seed(random.randrange(1000))
    assert accuracy(estimator) >= 0.95

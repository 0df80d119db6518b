"""A task in which one key must be picked: soft attention, and hard attention trained two ways."""

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
    recorded,
    reinforce,
    sampled,
    soft,
    straight_through,
)

SYMBOLS, KEYS, ANSWERS = 10, 6, 5


def examples(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A symbol to look for, keys of unlike symbols, an answer with each, and the right one."""
    keys = torch.rand(count, SYMBOLS).argsort(-1)[:, :KEYS]
    answers = torch.randint(ANSWERS, (count, KEYS))
    place = torch.randint(KEYS, (count, 1))
    query = F.one_hot(keys.gather(1, place), SYMBOLS).float()  # (B, 1, symbols)
    values = F.one_hot(answers, ANSWERS).float()
    return query, F.one_hot(keys, SYMBOLS).float(), values, answers.gather(1, place).squeeze(1)


def accuracy(estimator: str) -> float:
    """The share of right answers after 800 updates."""
    score = Bilinear(SYMBOLS, SYMBOLS)
    optimizer = torch.optim.Adam(score.parameters(), lr=0.05)
    for _ in range(800):
        query, key, value, answer = examples(64)
        log_probs: list[Tensor] = []
        select = {
            "soft": soft,
            "straight through": straight_through(sampled()),
            "reinforce": recorded(sampled(), log_probs),
        }[estimator]
        found = attend(query, key, value, score=score, select=select).squeeze(1)  # (B, answers)
        losses = F.cross_entropy(4 * found, answer, reduction="none")
        loss = losses.mean()
        if estimator == "reinforce":
            loss = reinforce(log_probs[0].squeeze(1), -losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    query, key, value, answer = examples(1000)
    choose = soft if estimator == "soft" else hard
    found = attend(query, key, value, score=score, select=choose).squeeze(1)
    return float((found.argmax(-1) == answer).float().mean())


@pytest.mark.parametrize("estimator", ["soft", "straight through", "reinforce"])
def test_the_right_key_is_found(estimator: str) -> None:
    torch.manual_seed(random.randrange(1000))
    assert accuracy(estimator) >= 0.95

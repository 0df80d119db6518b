"""Weight decay, which applies to matrices only."""

from __future__ import annotations

from typing import Literal

import pytest
import torch

from regard.training.config import TrainingConfig
from regard.training.optimizer import make_optimizer
from toys import small_transformer


def test_every_parameter_is_in_one_group_and_only_matrices_decay() -> None:
    model = small_transformer(output_bias=True, norm_order="pre")
    groups = make_optimizer(model, TrainingConfig(weight_decay=0.1)).param_groups
    decays = {id(weights): group["weight_decay"] for group in groups for weights in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    for name, weights in model.named_parameters():
        is_exempt = name.endswith("bias") or "norm" in name
        assert decays[id(weights)] == (0.0 if is_exempt else 0.1), name


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_weight_decay_without_gradients_shrinks_matrices_only(
    kind: Literal["adam", "adamw"],
) -> None:
    model, before = small_transformer(), small_transformer()
    optimizer = make_optimizer(model, TrainingConfig(optimizer=kind, weight_decay=0.5))
    for weights in model.parameters():
        weights.grad = torch.zeros_like(weights)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    for weights, old in zip(model.parameters(), before.parameters(), strict=True):
        if weights.ndim == 1:
            assert torch.equal(weights, old)
        elif kind == "adamw":
            torch.testing.assert_close(weights, old * (1 - 0.1 * 0.5))
        else:  # the size of Adam's first step is the learning rate, for any gradient
            torch.testing.assert_close(weights, old - 0.1 * old.sign(), atol=1e-3, rtol=0)

"""The gradient that reaches the first word, held to its definition sentence by sentence."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_ends
from regard.evaluation.contest import reach
from regard.models.base import Model, PairModel
from toys import EVERY_FORM, sentences, some_model

KINDS = ["the paper's", "LSTM, additive", "GRU without attention", "convolutional", "LSTM, hard"]


def _by_definition(model: Model, source: list[int], target: list[int], place: int) -> Tensor:
    """|| d loss_t / d e_1 || of a sentence alone, by moving its first embedding."""
    moved = torch.zeros(model.config.width, requires_grad=True)

    def move(module: object, inputs: object, output: Tensor) -> Tensor:
        return torch.cat([output[:1] + moved, output[1:]])

    assert isinstance(model, PairModel)
    hook = model.source_embedding.register_forward_hook(move)
    said = model(Batch(with_ends([source]), with_ends([target])))
    hook.remove()
    loss = F.cross_entropy(said.project(said.hidden)[place], said.targets[place])
    return torch.autograd.grad(loss, moved)[0].norm()


@pytest.mark.parametrize("form", KINDS)
def test_each_place_of_each_sentence(form: str) -> None:
    model = some_model(**EVERY_FORM[form])
    sources, targets = sentences(3, seed=1), sentences(3, seed=2)
    found = reach(model, Batch(with_ends(sources), with_ends(targets)))
    assert found.shape == (3, max(map(len, targets)) + 1)
    for row, source, target in zip(found, sources, targets, strict=True):
        for place, norm in enumerate(row):
            inside = place <= len(target)  # the end mark counts
            expected = _by_definition(model, source, target, place) if inside else torch.zeros(())
            torch.testing.assert_close(norm, expected, rtol=1e-4, atol=1e-7)


def test_what_a_convolution_cannot_see_does_not_reach_it() -> None:
    """Without attention nothing would arrive at all; through it, everything does."""
    model = some_model(**EVERY_FORM["convolutional"])
    found = reach(model, Batch(with_ends([[5] * 30]), with_ends([[6] * 20])))
    assert (found > 0).all()

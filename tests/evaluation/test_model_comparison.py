"""Gradients at the first source token match their definition, sentence by sentence."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batch import Batch
from regard.data.pairs import with_eos
from regard.evaluation.model_comparison import first_token_gradients
from regard.models.base import Model, PairModel
from toys import AUTOREGRESSIVE_VARIANTS, autoregressive_model, sentences

VARIANTS = ["vanilla", "LSTM, additive", "GRU without attention", "convolutional", "LSTM, hard"]


def _by_definition(model: Model, source: list[int], target: list[int], position: int) -> Tensor:
    """Compute || d loss_t / d e_1 || of a single sentence."""
    offset = torch.zeros(model.config.d_model, requires_grad=True)

    def add_offset(module: object, inputs: object, output: Tensor) -> Tensor:
        return torch.cat([output[:1] + offset, output[1:]])

    assert isinstance(model, PairModel)
    hook = model.source_embedding.register_forward_hook(add_offset)
    predictions = model(Batch(with_eos([source]), with_eos([target])))
    hook.remove()
    loss = F.cross_entropy(
        predictions.project(predictions.hidden)[position], predictions.targets[position]
    )
    return torch.autograd.grad(loss, offset)[0].norm()


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_match_definition(variant: str) -> None:
    model = autoregressive_model(**AUTOREGRESSIVE_VARIANTS[variant])
    sources, targets = sentences(3, seed=1), sentences(3, seed=2)
    norms = first_token_gradients(model, Batch(with_eos(sources), with_eos(targets)))
    assert norms.shape == (3, max(map(len, targets)) + 1)
    for row, source, target in zip(norms, sources, targets, strict=True):
        for position, norm in enumerate(row):
            is_target = position <= len(target)  # EOS is a target
            expected = (
                _by_definition(model, source, target, position) if is_target else torch.zeros(())
            )
            torch.testing.assert_close(norm, expected, rtol=1e-4, atol=1e-7)


def test_gradient_passes_through_attention_beyond_the_receptive_field() -> None:
    model = autoregressive_model(**AUTOREGRESSIVE_VARIANTS["convolutional"])
    norms = first_token_gradients(model, Batch(with_eos([[5] * 30]), with_eos([[6] * 20])))
    assert (norms > 0).all()

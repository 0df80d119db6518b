"""Feed-forward networks against their definitions."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.data.ragged import Lengths
from regard.layers.convolution import Convolution, ConvolutionalFeedForward
from regard.layers.feedforward import FeedForward


def test_gated_feedforward() -> None:
    network = FeedForward(4, 6, "silu", 0.0, gated=True)
    assert network.gate is not None
    x = torch.randn(5, 4)
    expected = network.contract(F.silu(network.expand(x)) * network.gate(x))
    torch.testing.assert_close(network(x), expected)


def by_conv1d(convolution: Convolution, sentence: Tensor, *, causal: bool) -> Tensor:
    """PyTorch's convolution over one sentence, (L, D) -> (L, out)."""
    weight = convolution.weight.weight.unflatten(1, (3, -1)).transpose(1, 2)
    padded = F.pad(sentence.T, (2, 0) if causal else (1, 1))
    return F.conv1d(padded[None], weight, convolution.weight.bias)[0].T


@pytest.mark.parametrize("causal", [False, True])
@settings(deadline=None, max_examples=20)
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_convolutions_do_not_cross_sentence_boundaries(causal: bool, sizes: list[int]) -> None:
    lengths = Lengths.of(sizes)
    convolution = Convolution(4, 6, causal=causal)
    x = torch.randn(lengths.total, 4)
    expected = [by_conv1d(convolution, part, causal=causal) for part in x.split(sizes)]
    torch.testing.assert_close(convolution(x, lengths), torch.cat(expected))


def test_steps_match_the_causal_pass() -> None:
    network = ConvolutionalFeedForward(4, 6, "relu", 0.0, causal=True)
    x = torch.randn(3, 7, 4)
    whole = network(x.flatten(0, 1), Lengths.of([7, 7, 7])).view(3, 7, 4)
    past = network.initial_state(x[:, :1])
    for position in range(7):
        y = network.step(x[:, position, None], past)
        torch.testing.assert_close(y, whole[:, position, None])

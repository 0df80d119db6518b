"""Gated convolutions against PyTorch's convolutions, and a decoder block against its equations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.attention.config import AttentionShape
from regard.data.ragged import Lengths
from regard.layers.convolution import Convolution
from regard.layers.gated import ConvolutionalBlock, ConvolutionalEncoder, GatedConvolution

LENGTHS = Lengths.of([4, 1, 6, 3])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolution_matches_pytorch(kernel: int, causal: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = Convolution(5, 7, causal=causal, kernel_size=kernel), nn.Conv1d(5, 7, kernel)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.weight.view(7, kernel, 5).transpose(1, 2))
        theirs.bias.copy_(ours.weight.bias)  # type: ignore[union-attr]
    x = torch.randn(LENGTHS.total, 5)
    before = kernel - 1 if causal else kernel // 2
    expected = [
        theirs(F.pad(row.t()[None], (before, kernel - 1 - before)))[0].t()
        for row in x.split(LENGTHS.lengths.tolist())
    ]
    torch.testing.assert_close(ours(x, LENGTHS), torch.cat(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_steps_with_a_window_match_the_full_pass(kernel: int) -> None:
    torch.manual_seed(0)
    layer, lengths = GatedConvolution(6, kernel, 0.0, causal=True), Lengths.of([5, 5])
    x = torch.randn(10, 6)
    whole = lengths.pad(layer(x, lengths))
    window = layer.convolution.initial_state(torch.zeros(2, 1, 0))
    assert window.shape == (2, 1, kernel - 1, 6)
    for position, column in enumerate(lengths.pad(x).split(1, 1)):
        y = layer.step(column, window)
        torch.testing.assert_close(y[:, 0], whole[:, position], atol=1e-6, rtol=0)


def test_encoder_preserves_variance() -> None:
    torch.manual_seed(0)
    encoder = ConvolutionalEncoder(10, 64, 3, 0.0)
    for block in encoder.blocks:
        assert isinstance(block, GatedConvolution)
        block.initialize()
    with torch.no_grad():
        encoder_output = encoder(torch.randn(300, 64), Lengths.of([300]))
    keys, values = encoder_output.chunk(2, -1)
    assert 0.5 < float(keys.std()) < 2
    assert 0.5 < float(values.std()) < 2


def test_block_matches_its_equations() -> None:
    torch.manual_seed(0)
    block = ConvolutionalBlock(AttentionShape(d_model=6, num_heads=1), 3, 0.0)
    targets, sources = Lengths.of([3, 5]), Lengths.of([4, 2])
    x, embedded, encoder_output = torch.randn(8, 6), torch.randn(8, 6), torch.randn(6, 12)
    actual = block(x, embedded, targets, encoder_output, sources)
    half, expected = 0.5**0.5, []
    gated = block.gated(x, targets)
    for u, e, x_rows, source_states in zip(
        *(part.split([3, 5]) for part in (gated, embedded, x)),
        encoder_output.split([4, 2]),
        strict=True,
    ):
        keys, values = source_states[:, :6], source_states[:, 6:]
        query = (block.query(u) + e) * half
        weights = (query @ keys.t() / 6**0.5).softmax(-1)
        context = weights @ values * len(source_states) ** 0.5
        expected.append((x_rows + (u + block.combine(context)) * half) * half)
    torch.testing.assert_close(actual, torch.cat(expected), atol=1e-6, rtol=0)

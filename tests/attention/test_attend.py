"""`attend` against its definition, with masks, biases and gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from regard.attention import attend, causal, padding, scaled_dot, sinusoids
from regard.attention.attend import attend_with_weights, attention_weights

# GPUs have other kernels, and none for double precision.
GPU_CASES = [("cuda", torch.float32), ("cuda", torch.float16)] * torch.cuda.is_available()


def test_attend_matches_the_definition() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(4, 6), torch.randn(5, 6), torch.randn(5, 3)
    actual = attend(query[None], key[None], value[None])[0]
    for t in range(4):
        scores = [float(query[t] @ key[n]) / math.sqrt(6) for n in range(5)]
        total = sum(math.exp(score) for score in scores)
        expected = sum(math.exp(s) / total * value[n] for n, s in enumerate(scores))
        assert_close(actual[t], expected, atol=1e-5, rtol=0)


def test_custom_score_matches_the_fused_kernel() -> None:
    query, key, value = torch.randn(3, 1, 4, 6).unbind(0)
    actual = attend(query, key, value, score=lambda q, k: q @ k.transpose(-2, -1) / 6**0.5)
    assert_close(actual, attend(query, key, value), atol=1e-5, rtol=0)


def test_masked_keys_have_zero_weight() -> None:
    mask = padding(torch.tensor([2, 5]), 5)
    weights = attention_weights(torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), mask=mask)
    assert weights[0, :, :, 2:].abs().max() == 0
    assert_close(weights.sum(-1), torch.ones(2, 3, 4))


def unfused_score(query: Tensor, key: Tensor) -> Tensor:
    """The scaled dot product as another function, for which the fused kernel is not used."""
    return scaled_dot(query, key)


def output_and_gradients(tensors: list[Tensor], **arguments: Any) -> list[Tensor]:
    """The output of `attend`, and the gradients of a loss on it."""
    tensors = [x.clone().requires_grad_() for x in tensors]
    output = attend(*tensors, **arguments)
    return [output, *torch.autograd.grad(output.square().sum(), tensors)]


def test_bias_is_added_to_scores() -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 3, 5, 8).double().unbind(0)
    bias = torch.randn(3, 5, 5).double()
    expected = ((query @ key.mT) / 8**0.5 + bias).softmax(-1)
    assert_close(attention_weights(query, key, bias=bias), expected)
    output, weights = attend_with_weights(query, key, value, bias=bias)
    assert_close((output, weights), (expected @ value, expected))
    assert_close(attend(query, key, value, bias=bias), output)
    assert_close(attend(query, key, value, bias=bias, score=unfused_score), output)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("length", [3, 70])  # the kernel works in blocks
@pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", torch.double), *GPU_CASES], ids=lambda option: str(option)
)
def test_fully_masked_queries_give_zeros(
    biased: bool, length: int, device: str, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    tensors = [*torch.randn(3, 2, 1, length, 8).to(device, dtype).unbind(0)]
    mask = (torch.rand(2, 1, length, length) > 0.5).to(device)
    mask[0, :, 1] = False
    mask[1] = False
    bias = torch.randn(length, length).to(device, dtype) if biased else None
    fused = output_and_gradients(tensors, mask=mask, bias=bias)
    expected = output_and_gradients(tensors, mask=mask, bias=bias, score=unfused_score)
    tolerance = 1e-7 if dtype == torch.double else 1e-2
    assert_close(fused, expected, atol=tolerance, rtol=tolerance)
    assert (fused[0][0, :, 1] == 0).all()
    assert (fused[0][1] == 0).all()
    assert all(part.isfinite().all() for part in fused)


@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("biased", [True, False])
def test_masked_keys_and_values_may_be_nonfinite(junk: float, biased: bool) -> None:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 1, 5, 8).double().unbind(0)
    mask = padding(torch.tensor([2, 5]), 5) & causal(5, 5)
    mask[1, :, :, 3] = False
    bias = torch.randn(5, 5).double() if biased else None
    expected = output_and_gradients([query, key, value], mask=mask, bias=bias)
    for x in (key, value):
        x[0, :, 2:], x[1, :, 3] = junk, junk
    for score in (scaled_dot, unfused_score):
        actual = output_and_gradients([query, key, value], mask=mask, bias=bias, score=score)
        assert_close(actual, expected)
    weights = attention_weights(query, key, mask=mask, bias=bias)
    assert (weights[0, :, :, 2:] == 0).all()


def test_causal_mask_shows_current_and_past_positions() -> None:
    expected = [[k <= q for k in range(4)] for q in range(4)]
    assert causal(4, 4).tolist() == expected
    assert causal(1, 4).tolist() == [[True] * 4]


@pytest.mark.parametrize("width", [1, 6, 7, 64])
def test_sinusoids_match_the_paper(width: int) -> None:
    table = sinusoids(40, width)
    for position in (0, 1, 17, 39):
        for d in range(width):
            angle = position / 10000 ** (2 * (d // 2) / width)
            expected = math.sin(angle) if d % 2 == 0 else math.cos(angle)
            assert float(table[position, d]) == pytest.approx(expected, abs=1e-6)


def test_sinusoid_layouts_are_permutations() -> None:
    interleaved, halves = sinusoids(30, 8), sinusoids(30, 8, "halves")
    assert torch.equal(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], 1))


@settings(deadline=None, max_examples=25)
@given(
    batch=st.integers(1, 3),
    queries=st.integers(1, 5),
    keys=st.integers(1, 5),
    width=st.integers(1, 4),
    value_width=st.integers(1, 4),
    data=st.data(),
)
def test_attend_and_its_gradients_match_numpy(
    batch: int, queries: int, keys: int, width: int, value_width: int, data: st.DataObject
) -> None:
    """Forward by loops, backward by the gradient of softmax, including fully masked rows."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    q, k = rng.normal(size=(batch, queries, width)), rng.normal(size=(batch, keys, width))
    v, noise = (
        rng.normal(size=(batch, keys, value_width)),
        rng.normal(size=(batch, queries, value_width)),
    )
    mask = rng.random((batch, queries, keys)) < 0.6
    a = np.zeros(mask.shape)
    for b, t in np.ndindex(batch, queries):
        visible = np.flatnonzero(mask[b, t])
        if len(visible):
            scores = k[b, visible] @ q[b, t] / math.sqrt(width)
            powers = np.exp(scores - scores.max())
            a[b, t, visible] = powers / powers.sum()
    slope = noise @ v.transpose(0, 2, 1)
    dscores = a * (slope - (a * slope).sum(-1, keepdims=True)) / math.sqrt(width)
    expected = [a @ v, dscores @ k, dscores.transpose(0, 2, 1) @ q, a.transpose(0, 2, 1) @ noise]

    tensors = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    for score in (scaled_dot, unfused_score):
        output = attend(*tensors, mask=torch.from_numpy(mask), score=score)
        gradients = torch.autograd.grad(output, tensors, torch.from_numpy(noise))
        for ours, theirs in zip([output, *gradients], expected, strict=True):
            np.testing.assert_allclose(ours.detach().numpy(), theirs, atol=1e-9)

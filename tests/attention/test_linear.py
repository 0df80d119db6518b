"""The gradients of the linear layer against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.linear import Linear, _Linear


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_gradients_match_pytorch(rows: int) -> None:
    torch.manual_seed(rows)
    layer = nn.Linear(5, 3).double()
    x = torch.randn(rows, 5, dtype=torch.double, requires_grad=True)
    over = [x, layer.weight, layer.bias]
    actual, expected = _Linear.apply(*over), layer(x)  # type: ignore[no-untyped-call]
    weights = torch.randn_like(expected)
    torch.testing.assert_close(actual, expected)
    ours = torch.autograd.grad((actual * weights).sum(), over)
    theirs = torch.autograd.grad((expected * weights).sum(), over)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("shape", [(4096,), (16, 32)])
def test_on_a_gpu_in_half_precision(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = Linear(256, 512, device="cuda")
    torch_layer = nn.Linear(256, 512, device="cuda")
    torch_layer.load_state_dict(layer.state_dict())
    x = torch.randn(*shape, 256, device="cuda")
    weights = torch.randn(*shape, 512, device="cuda")
    gradients = []
    for module in (layer, torch_layer):
        with torch.autocast("cuda", torch.bfloat16):
            actual = module(x)
        (actual.float() * weights).sum().backward()
        gradients.append([parameter.grad for parameter in module.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        assert ours is not None
        assert theirs is not None
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.01 * theirs.norm()

"""The linear layer's own gradients against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention.linear import Linear, _Linear


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_gradients_are_those_of_pytorch(rows: int) -> None:
    torch.manual_seed(rows)
    layer = nn.Linear(5, 3).double()
    x = torch.randn(rows, 5, dtype=torch.double, requires_grad=True)
    over = [x, layer.weight, layer.bias]
    found, expected = _Linear.apply(*over), layer(x)  # type: ignore[no-untyped-call]
    weights = torch.randn_like(expected)
    torch.testing.assert_close(found, expected)
    own = torch.autograd.grad((found * weights).sum(), over)
    theirs = torch.autograd.grad((expected * weights).sum(), over)
    torch.testing.assert_close(own, theirs)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("shape", [(4096,), (16, 32)])
def test_on_a_gpu_in_half_precision(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = Linear(256, 512, device="cuda")
    plain = nn.Linear(256, 512, device="cuda")
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(*shape, 256, device="cuda")
    weights = torch.randn(*shape, 512, device="cuda")
    gradients = []
    for one in (layer, plain):
        with torch.autocast("cuda", torch.bfloat16):
            found = one(x)
        (found.float() * weights).sum().backward()
        gradients.append([parameter.grad for parameter in one.parameters()])
    for own, theirs in zip(*gradients, strict=True):
        assert own is not None
        assert theirs is not None
        assert own.dtype == torch.float32
        assert (own - theirs).norm() < 0.01 * theirs.norm()

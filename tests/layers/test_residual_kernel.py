"""The fused residual connection against PyTorch, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from compiling import assert_compiles
from regard.layers.residual import NormOrder, Residual

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SIZES = [(1, 8), (7, 20), (64, 128), (530, 5), (3, 2100)]  # tokens, width


def norm_of(kind: type[nn.LayerNorm] | type[nn.RMSNorm], width: int) -> nn.LayerNorm | nn.RMSNorm:
    """A norm with random weights."""
    norm = kind(width, device=DEVICE)
    for weights in norm.parameters():
        nn.init.normal_(weights, 1.0)
    return norm


def inputs(tokens: int, width: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(tokens * width)
    tensors = [torch.randn(tokens, width) for _ in range(2)]
    return [part.to(DEVICE, dtype).requires_grad_() for part in tensors]


def gradients(result: Tensor, over: list[Tensor]) -> list[Tensor]:
    torch.manual_seed(1)
    weights = torch.randn(result.shape).to(result.device)
    return list(torch.autograd.grad((result.float() * weights).sum(), over))


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(("tokens", "width"), SIZES)
def test_add_norm_matches_pytorch(
    kind: type[nn.LayerNorm] | type[nn.RMSNorm], adds: bool, tokens: int, width: int
) -> None:
    from regard.layers import residual_kernel

    x, y = inputs(tokens, width)
    norm = norm_of(kind, width)
    over = [x, *([y] if adds else []), *norm.parameters()]
    with torch.autocast(DEVICE, torch.bfloat16):
        actual = residual_kernel.add_norm(x, y if adds else None, norm)
    expected = norm(x + y if adds else x)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, atol=0.02, rtol=0.01)
    for actual_gradient, expected_gradient in zip(
        gradients(actual, over), gradients(expected, over), strict=True
    ):
        assert (
            actual_gradient - expected_gradient
        ).norm() <= 0.01 * expected_gradient.norm() + 1e-4


@pytest.mark.parametrize("order", ["post", "pre"])
def test_dropped_elements_have_no_gradient(order: NormOrder) -> None:
    from regard.layers import residual_kernel

    x, y = inputs(400, 24)
    norm = norm_of(nn.LayerNorm, 24)
    torch.manual_seed(3)
    with torch.autocast(DEVICE, torch.bfloat16):
        if order == "pre":
            actual = residual_kernel.add(x, y, 0.3)
            dropout_mask = (actual - x).abs() > 1e-6
            torch.testing.assert_close(
                (actual - x)[dropout_mask], y[dropout_mask] / 0.7, atol=1e-5, rtol=1e-4
            )
        else:
            actual = residual_kernel.add_norm(x, y, norm, 0.3)
    x_gradient, y_gradient = gradients(actual, [x, y])
    dropout_mask = y_gradient != 0
    assert 0.67 < dropout_mask.float().mean() < 0.73
    assert (dropout_mask.float().mean(0) > 0.2).all()
    assert (dropout_mask.float().mean(1) > 0.2).all()
    torch.testing.assert_close(
        y_gradient[dropout_mask], x_gradient[dropout_mask] / 0.7, atol=1e-4, rtol=0.02
    )
    again = residual_kernel.add(x, y, 0.3)
    assert ((again - x).abs() > 1e-6).ne(dropout_mask).any(), "another draw drops other elements"


def test_dropout_is_reproducible() -> None:
    from regard.layers import residual_kernel

    x, y = inputs(40, 24)
    draws = []
    for _ in range(2):
        torch.manual_seed(3)
        draws.append(residual_kernel.add(x, y, 0.3))
    assert torch.equal(*draws)


def test_supported_norms_and_dtypes() -> None:
    from regard.layers import residual_kernel

    x = torch.zeros(2, 8)
    assert not residual_kernel.is_supported(x, nn.LayerNorm(8))
    assert residual_kernel.is_supported(x.bfloat16(), nn.LayerNorm(8))
    assert not residual_kernel.is_supported(x.bfloat16(), nn.Identity())
    assert not residual_kernel.is_supported(torch.zeros(2, 5000).bfloat16(), nn.LayerNorm(5000))


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("width", [128, 512, 1024])
def test_on_a_gpu_at_real_sizes(order: NormOrder, width: int) -> None:
    x, y = inputs(20000, width, torch.bfloat16)
    exact = [part.detach().float().requires_grad_() for part in (x, y)]
    residual = Residual(norm_of(nn.LayerNorm, width), 0.0, order).train()
    with torch.autocast(DEVICE, torch.bfloat16):
        actual = residual.before(residual.after(x, y))
    expected = residual.before(residual.after(*exact))
    torch.testing.assert_close(actual.float(), expected.float(), atol=0.05, rtol=0.02)
    weights = [*residual.norm.parameters()]
    for actual_gradient, expected_gradient in zip(
        gradients(actual, [x, y, *weights]), gradients(expected, [*exact, *weights]), strict=True
    ):
        assert (
            actual_gradient.float() - expected_gradient
        ).norm() < 0.01 * expected_gradient.norm()


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.layers import residual_kernel as kernels

NUMBERS = {"size": "i32", "count": "i32", "width": "i32", "eps": "fp32", "dropout": "fp32"}
KINDS = {**NUMBERS, "seed": "*i64", "moments": "*fp32", "sums": "*fp32", "weight": "*fp32"}
KINDS |= {"bias": "*fp32"}
for kernel, sizes in (
    (kernels._add_kernel, {"block": 2048}),
    (kernels._add_norm_kernel, {"rows": 2, "block": 1024, "centres": True}),
    (kernels._add_norm_backward_kernel, {"rows": 2, "block": 1024, "centres": True}),
):
    fixed = {**sizes, "adds": True, "drops": True}
    kinds = {name: KINDS.get(name, "*bf16") for name in kernel.arg_names}
    kinds |= {name: "constexpr" for name in fixed}
    triton.compile(
        ASTSource(kernel, kinds, fixed), GPUTarget("cuda", 90, 32), {"num_warps": 4}
    )
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    assert_compiles(COMPILE, tmp_path)

"""The kernels of a decoding step against `attend`, on a GPU or in Triton's interpreter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compiling import assert_compiles
from regard.attention.attend import attend
from regard.attention.cache import BeamHistory

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def run_steps(sentences: int, beams: int, steps: int, capacity: int) -> BeamHistory:
    """A history of random beams; the last step has begun."""
    draw = torch.Generator().manual_seed(beams)
    history = BeamHistory.of(sentences, beams, capacity, DEVICE)
    for step in range(steps):
        history.length = step + 1
        history.begin_step()
        if step + 1 < steps:
            history.end_step()
            history.reorder(torch.randint(0, beams, (sentences, beams), generator=draw).to(DEVICE))
    return history


@pytest.mark.parametrize(("beams", "steps"), [(1, 1), (1, 70), (4, 1), (4, 20), (5, 13), (16, 9)])
@pytest.mark.parametrize(("width", "value_width"), [(8, 8), (20, 40), (64, 64)])
def test_self_attention_step_follows_beam_histories(
    beams: int, steps: int, width: int, value_width: int
) -> None:
    from regard.attention import step_kernel

    torch.manual_seed(0)
    sentences, heads, capacity = 3, 2, 80
    history = run_steps(sentences, beams, steps, capacity)
    sizes = [heads * width, heads * width, heads * value_width]
    product = torch.randn(sentences * beams, sum(sizes), device=DEVICE)
    query, key, value = (
        part.unflatten(-1, (heads, -1)).unflatten(0, (sentences, beams))
        for part in product.split(sizes, dim=-1)
    )
    keys = torch.randn(sentences, heads, capacity * beams, width, device=DEVICE)
    values = torch.randn(sentences, heads, capacity * beams, value_width, device=DEVICE)
    actual = step_kernel.self_attention_step(
        query, key, value, keys, values, history.beams, history.position
    )
    columns = steps * beams
    assert torch.equal(keys[:, :, columns - beams : columns], key.transpose(1, 2))
    assert torch.equal(values[:, :, columns - beams : columns], value.transpose(1, 2))
    visible = history.beams[:, :, :steps, None] == torch.arange(beams, device=DEVICE)
    expected = attend(
        query.transpose(1, 2),
        keys[:, :, :columns],
        values[:, :, :columns],
        mask=visible.flatten(2)[:, None],
    )
    torch.testing.assert_close(actual, expected.transpose(1, 2), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 4])
def test_cross_attention_step(beams: int) -> None:
    from regard.attention import step_kernel

    torch.manual_seed(0)
    lengths = torch.tensor([1, 90, 64], device=DEVICE)
    query = torch.randn(3, beams, 2, 16, device=DEVICE)
    keys, values = torch.randn(2, 3, 2, 96, 16, device=DEVICE)
    actual = step_kernel.cross_attention_step(query, keys, values, lengths)
    mask = torch.arange(96, device=DEVICE) < lengths[:, None, None, None]
    expected = attend(query.transpose(1, 2), keys, values, mask=mask)
    torch.testing.assert_close(actual, expected.transpose(1, 2), atol=1e-4, rtol=1e-4)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.attention.step_kernel import _attention

for self_attention in (True, False):
    fixed = {"width": 64, "width_block": 64, "value_width": 64, "value_block": 64}
    fixed |= {"beams": 4, "self_attention": self_attention, "block": 32}
    kinds = {"table": "*i64", "position": "*i64", "scale": "fp32"}
    for name in _attention.arg_names:
        pointer = name in ("query", "key", "value", "keys", "values", "result")
        kinds.setdefault(name, "constexpr" if name in fixed else "*bf16" if pointer else "i32")
    kinds = {name: kinds[name] for name in _attention.arg_names}
    triton.compile(ASTSource(_attention, kinds, fixed), GPUTarget("cuda", 90, 32))
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    assert_compiles(COMPILE, tmp_path)

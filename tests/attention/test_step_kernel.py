"""The kernel of a decoding step against plain attention; without a GPU, Triton interprets it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from compiling import assert_compiles
from regard.attention.attend import attend
from regard.attention.cache import Trail

pytest.importorskip("triton")
GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")


def walked(sentences: int, beams: int, steps: int, room: int) -> Trail:
    """A trail after some steps; the last one is under way."""
    draw = torch.Generator().manual_seed(beams)
    trail = Trail.of(sentences, beams, room, DEVICE)
    for step in range(steps):
        trail.reach = step + 1
        trail.begin()
        if step + 1 < steps:
            trail.end()
            trail.reorder(torch.randint(0, beams, (sentences, beams), generator=draw).to(DEVICE))
    return trail


@pytest.mark.parametrize(("beams", "steps"), [(1, 1), (1, 70), (4, 1), (4, 20), (5, 13), (16, 9)])
@pytest.mark.parametrize(("width", "value_width"), [(8, 8), (20, 40), (64, 64)])
def test_along_trails(beams: int, steps: int, width: int, value_width: int) -> None:
    from regard.attention import step_kernel

    torch.manual_seed(0)
    sentences, heads, room = 3, 2, 80
    trail = walked(sentences, beams, steps, room)
    sizes = [heads * width, heads * width, heads * value_width]
    product = torch.randn(sentences * beams, sum(sizes), device=DEVICE)
    query, key, value = (
        part.unflatten(-1, (heads, -1)).unflatten(0, (sentences, beams))
        for part in product.split(sizes, dim=-1)
    )
    keys = torch.randn(sentences, heads, room * beams, width, device=DEVICE)
    values = torch.randn(sentences, heads, room * beams, value_width, device=DEVICE)
    found = step_kernel.attention_along(query, key, value, keys, values, trail.beams, trail.place)
    columns = steps * beams
    assert torch.equal(keys[:, :, columns - beams : columns], key.transpose(1, 2))
    assert torch.equal(values[:, :, columns - beams : columns], value.transpose(1, 2))
    through = trail.beams[:, :, :steps, None] == torch.arange(beams, device=DEVICE)
    expected = attend(
        query.transpose(1, 2),
        keys[:, :, :columns],
        values[:, :, :columns],
        mask=through.flatten(2)[:, None],
    )
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 4])
def test_to_a_source(beams: int) -> None:
    from regard.attention import step_kernel

    torch.manual_seed(0)
    lengths = torch.tensor([1, 90, 64], device=DEVICE)
    query = torch.randn(3, beams, 2, 16, device=DEVICE)
    keys, values = torch.randn(2, 3, 2, 96, 16, device=DEVICE)
    found = step_kernel.attention_to(query, keys, values, lengths)
    mask = torch.arange(96, device=DEVICE) < lengths[:, None, None, None]
    expected = attend(query.transpose(1, 2), keys, values, mask=mask)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-4, rtol=1e-4)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.attention.step_kernel import _attention

for along in (True, False):
    fixed = {"width": 64, "width_block": 64, "value_width": 64, "value_block": 64}
    fixed |= {"beams": 4, "along": along, "block": 32}
    kinds = {"table": "*i64", "place": "*i64", "scale": "fp32"}
    for name in _attention.arg_names:
        pointer = name in ("query", "key", "value", "keys", "values", "result")
        kinds.setdefault(name, "constexpr" if name in fixed else "*bf16" if pointer else "i32")
    kinds = {name: kinds[name] for name in _attention.arg_names}
    triton.compile(ASTSource(_attention, kinds, fixed), GPUTarget("cuda", 90, 32))
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_it_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    assert_compiles(COMPILE, tmp_path)

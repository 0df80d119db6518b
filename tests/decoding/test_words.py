"""The best next words, by whatever way, are those of the definition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from compiling import assert_compiles
from regard.decoding.rules import Rules
from regard.decoding.words import Plain, SummedUp, Words
from regard.text.special import SPECIAL

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
SIZES = [(1, 8), (3, 131), (5, 1024), (2, 3003)]


def by_definition(logits: Tensor, *, may_end: bool) -> Tensor:
    log_probs = logits.log_softmax(-1)
    for mark in (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start, *([] if may_end else [SPECIAL.end])):
        log_probs[:, mark] = -torch.inf
    return log_probs


@pytest.mark.parametrize("kind", [Plain, SummedUp])
@pytest.mark.parametrize("may_end", [True, False])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize(("rows", "words"), SIZES)
def test_the_best_words(
    kind: type[Plain] | type[SummedUp], rows: int, words: int, count: int, may_end: bool
) -> None:
    if kind is SummedUp:
        pytest.importorskip("triton")
    torch.manual_seed(words)
    logits = torch.randn(rows, words, device=DEVICE) * 3
    logits[:, :4] += 9  # what is forbidden would be best
    place = torch.tensor([4], device=DEVICE)
    rules = Rules.of([9], None, DEVICE, minimum=4 if may_end else 5)
    expected = by_definition(logits, may_end=may_end)
    some = torch.randint(0, words, (rows, 2), device=DEVICE)
    found: Words = kind(logits.clone(), rules, place)
    torch.testing.assert_close(found.of(some), logits.log_softmax(-1).gather(1, some))
    best, chosen = found.best(count)
    torch.testing.assert_close(best, expected.topk(count, dim=1).values, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(expected.gather(1, chosen), best, atol=1e-4, rtol=1e-4)
    assert all(len(set(row)) == count for row in chosen.tolist() if count < words - 4)
    torch.testing.assert_close(kind(logits.clone(), rules, place).all(), expected)


COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.decoding.words_kernel import _summary

kinds = {"logits": "*bf16", "place": "*i64", "floats": "*fp32", "highest": "*fp32", "word": "*i64"}
fixed = {"block": 32, "chunk": 128}
for name in _summary.arg_names:
    kinds.setdefault(name, "constexpr" if name in fixed else "i32")
compile(ASTSource(_summary, kinds, fixed), GPUTarget("cuda", 90, 32), {"num_warps": 8})
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_the_kernel_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    assert_compiles(COMPILE, tmp_path)

"""The best next words, by whatever way, are those of the definition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from compiling import assert_compiles
from regard.decoding.greedy import GreedySearch, likeliest
from regard.decoding.rules import Rules
from regard.decoding.words import SummedUp, Words
from regard.text.special import SPECIAL
from toys import small_model

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
SIZES = [(1, 8), (3, 131), (5, 1024), (2, 3003)]


def by_definition(logits: Tensor, *, may_end: bool) -> Tensor:
    logits = logits.clone()
    if not may_end:
        logits[:, SPECIAL.end] = -torch.inf
    log_probs = logits.log_softmax(-1)
    for mark in (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start):
        log_probs[:, mark] = -torch.inf
    return log_probs


@pytest.mark.parametrize("kind", [Words, SummedUp])
@pytest.mark.parametrize("may_end", [True, False])
@pytest.mark.parametrize(("rows", "words"), SIZES)
def test_the_best_words(kind: type[Words], rows: int, words: int, may_end: bool) -> None:
    if kind is SummedUp:
        pytest.importorskip("triton")
    torch.manual_seed(words)
    logits = torch.randn(rows, words, device=DEVICE) * 3
    logits[:, :4] += 9  # what is forbidden would be best
    place = torch.tensor([4], device=DEVICE)
    rules = Rules.of([9], None, DEVICE, minimum=4 if may_end else 5)
    expected = by_definition(logits, may_end=may_end)
    some = torch.randint(0, words, (rows, 2), device=DEVICE)
    found = kind(logits.clone(), rules, place)
    whole = logits.clone()
    whole[:, SPECIAL.end] = whole[:, SPECIAL.end] if may_end else -torch.inf
    torch.testing.assert_close(found.of(some), whole.log_softmax(-1).gather(1, some))
    best, chosen = found.likeliest()
    torch.testing.assert_close(best, expected.amax(1, keepdim=True), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(expected.gather(1, chosen), best, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(kind(logits.clone(), rules, place).all(), expected)


@pytest.mark.parametrize("count", [1, 5, 300])
def test_a_kernel_writes_as_the_search_does(count: int) -> None:
    kernel = pytest.importorskip("regard.decoding.words_kernel")
    torch.manual_seed(count)
    last = torch.full((count, 1), SPECIAL.start)
    rules = Rules.of([9] * count, None, torch.device("cpu"))
    plain, other = (
        GreedySearch(
            model=small_model(),
            state=None,
            rules=rules,
            length_penalty=1.0,
            place=torch.zeros(1, dtype=torch.long),
            last=last.clone(),
            log_probs=torch.zeros(count),
            tokens=torch.full((4, count), SPECIAL.end),
            going=torch.ones(count, dtype=torch.bool),
            choose=likeliest,
            sentences=torch.arange(count),
        )
        for _ in range(2)
    )
    for part in ("last", "log_probs", "tokens", "going", "place"):
        setattr(other, part, getattr(other, part).to(DEVICE))
    for _ in range(4):
        tokens, gains = torch.randint(3, 6, (count, 1)), torch.randn(count)
        plain._write(tokens, gains)
        kernel.write(tokens.to(DEVICE), gains.to(DEVICE), other)
        for part in ("last", "log_probs", "tokens", "going", "place"):
            assert torch.equal(getattr(other, part).cpu(), getattr(plain, part))


@pytest.mark.parametrize("kind", [Words, SummedUp])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("words", [131, 1024, 3003, 8000])
def test_the_best_of_all_beams(kind: type[Words], words: int, beams: int, count: int) -> None:
    if kind is SummedUp:
        pytest.importorskip("triton")
    torch.manual_seed(words)
    logits = torch.randn(2 * beams, words, device=DEVICE) * 3
    logits[-1, -1] += 20  # the last word, in a chunk that may not be full
    before = -torch.rand(2, beams, device=DEVICE) * 3
    rules, place = Rules.of([9], None, DEVICE), torch.tensor([4], device=DEVICE)
    totals = by_definition(logits, may_end=True).unflatten(0, before.shape) + before[:, :, None]
    found = kind(logits.clone(), rules, place).best(before, count)
    expected = totals.flatten(1).topk(count, dim=1)
    torch.testing.assert_close(found.log_probs, expected.values, atol=1e-4, rtol=1e-4)
    assert torch.equal(found.parents * words + found.tokens, expected.indices)


def test_without_scores_the_word_is_the_same() -> None:
    logits = torch.randn(4, 3003, device=DEVICE)
    rules, place = Rules.of([9], None, DEVICE), torch.tensor([4], device=DEVICE)
    scored, unscored = (Words(logits.clone(), rules, place, scored=s) for s in (True, False))
    assert torch.equal(scored.likeliest()[1], unscored.likeliest()[1])


COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.decoding.words_kernel import _summary, _write

integers = dict.fromkeys(["place", "word", "tokens", "last", "table"], "*i64")
floats = dict.fromkeys(["floats", "highest", "gains", "log_probs"], "*fp32")
known = {**integers, **floats, "logits": "*bf16", "going": "*i1"}
sizes = {_summary: {"block": 32, "chunk": 128}, _write: {"block": 256}}
for kernel, fixed in sizes.items():
    fixed_kinds = {**known, **dict.fromkeys(fixed, "constexpr")}
    kinds = {name: fixed_kinds.get(name, "i32") for name in kernel.arg_names}
    compile(ASTSource(kernel, kinds, fixed), GPUTarget("cuda", 90, 32), {"num_warps": 1})
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_the_kernel_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    assert_compiles(COMPILE, tmp_path)

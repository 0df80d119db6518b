"""Next-token scores, fused or not, match their definition."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from compiling import assert_compiles
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.greedy import GreedySearch, argmax_tokens
from regard.decoding.next_token import FusedNextTokenScores, NextTokenScores
from regard.text.special import SPECIAL
from toys import small_transformer

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
SIZES = [(1, 8), (3, 131), (5, 1024), (2, 3003)]


def expected_log_probs(logits: Tensor, *, eos_allowed: bool) -> Tensor:
    logits = logits.clone()
    if not eos_allowed:
        logits[:, SPECIAL.eos] = -torch.inf
    log_probs = logits.log_softmax(-1)
    for token in (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos):
        log_probs[:, token] = -torch.inf
    return log_probs


@pytest.mark.parametrize("kind", [NextTokenScores, FusedNextTokenScores])
@pytest.mark.parametrize("eos_allowed", [True, False])
@pytest.mark.parametrize(("rows", "vocab_size"), SIZES)
def test_gather_max_and_log_probs(
    kind: type[NextTokenScores], rows: int, vocab_size: int, eos_allowed: bool
) -> None:
    if kind is FusedNextTokenScores:
        pytest.importorskip("triton")
    torch.manual_seed(vocab_size)
    logits = torch.randn(rows, vocab_size, device=DEVICE) * 3
    logits[:, :4] += 9  # banned tokens would be the best
    position = torch.tensor([4], device=DEVICE)
    min_length = 4 if eos_allowed else 5
    constraints = DecodingConstraints.of([9], None, DEVICE, min_length)
    expected = expected_log_probs(logits, eos_allowed=eos_allowed)
    tokens = torch.randint(0, vocab_size, (rows, 2), device=DEVICE)
    scores = kind(logits.clone(), constraints, position)
    unbanned = logits.clone()
    unbanned[:, SPECIAL.eos] = unbanned[:, SPECIAL.eos] if eos_allowed else -torch.inf
    gathered = unbanned.log_softmax(-1).gather(1, tokens)
    torch.testing.assert_close(scores.gather(tokens), gathered)
    best, argmax = scores.max()
    torch.testing.assert_close(best, expected.amax(1, keepdim=True), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(expected.gather(1, argmax), best, atol=1e-4, rtol=1e-4)
    log_probs = kind(logits.clone(), constraints, position).log_probs()
    torch.testing.assert_close(log_probs, expected)


@pytest.mark.parametrize("count", [1, 5, 300])
def test_append_kernel_matches_greedy_search(count: int) -> None:
    kernel = pytest.importorskip("regard.decoding.next_token_kernel")
    torch.manual_seed(count)
    last_tokens = torch.full((count, 1), SPECIAL.bos)
    constraints = DecodingConstraints.of([9] * count, None, torch.device("cpu"))
    eager, fused = (
        GreedySearch(
            model=small_transformer(),
            state=None,
            constraints=constraints,
            length_penalty=1.0,
            position=torch.zeros(1, dtype=torch.long),
            last_tokens=last_tokens.clone(),
            log_probs=torch.zeros(count),
            tokens=torch.full((4, count), SPECIAL.eos),
            active=torch.ones(count, dtype=torch.bool),
            choose=argmax_tokens,
            indices=torch.arange(count),
        )
        for _ in range(2)
    )
    fields = ("last_tokens", "log_probs", "tokens", "active", "position")
    for field in fields:
        setattr(fused, field, getattr(fused, field).to(DEVICE))
    for _ in range(4):
        tokens, log_probs = torch.randint(3, 6, (count, 1)), torch.randn(count)
        eager._append(tokens, log_probs)
        kernel.append_tokens(tokens.to(DEVICE), log_probs.to(DEVICE), fused)
        for field in fields:
            assert torch.equal(getattr(fused, field).cpu(), getattr(eager, field))


@pytest.mark.parametrize("kind", [NextTokenScores, FusedNextTokenScores])
@pytest.mark.parametrize("count", [1, 2, 8])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("vocab_size", [131, 1024, 3003, 8000])
def test_topk_over_all_beams(
    kind: type[NextTokenScores], vocab_size: int, beams: int, count: int
) -> None:
    if kind is FusedNextTokenScores:
        pytest.importorskip("triton")
    torch.manual_seed(vocab_size)
    logits = torch.randn(2 * beams, vocab_size, device=DEVICE) * 3
    logits[-1, -1] += 20  # the last token, in a chunk that may be incomplete
    prefixes = -torch.rand(2, beams, device=DEVICE) * 3
    constraints = DecodingConstraints.of([9], None, DEVICE)
    position = torch.tensor([4], device=DEVICE)
    totals = expected_log_probs(logits, eos_allowed=True).unflatten(0, prefixes.shape)
    totals += prefixes[:, :, None]
    best = kind(logits.clone(), constraints, position).topk(prefixes, count)
    expected = totals.flatten(1).topk(count, dim=1)
    torch.testing.assert_close(best.log_probs, expected.values, atol=1e-4, rtol=1e-4)
    assert torch.equal(best.parents * vocab_size + best.tokens, expected.indices)


def test_argmax_without_scores_is_the_same() -> None:
    logits = torch.randn(4, 3003, device=DEVICE)
    constraints = DecodingConstraints.of([9], None, DEVICE)
    position = torch.tensor([4], device=DEVICE)
    scored, unscored = (
        NextTokenScores(logits.clone(), constraints, position, scored=flag)
        for flag in (True, False)
    )
    assert torch.equal(scored.max()[1], unscored.max()[1])


COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.decoding.next_token_kernel import _append_tokens, _summarize

integers = dict.fromkeys(["position", "argmax", "tokens", "last_tokens", "table"], "*i64")
floats = dict.fromkeys(["floats", "chunk_max", "log_probs", "totals"], "*fp32")
pointers = {**integers, **floats, "logits": "*bf16", "active": "*i1"}
sizes = {_summarize: {"block": 32, "chunk": 128}, _append_tokens: {"block": 256}}
for kernel, constants in sizes.items():
    types = {**pointers, **dict.fromkeys(constants, "constexpr")}
    signature = {name: types.get(name, "i32") for name in kernel.arg_names}
    compile(ASTSource(kernel, signature, constants), GPUTarget("cuda", 90, 32), {"num_warps": 1})
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    assert_compiles(COMPILE, tmp_path)

"""The sentence kernels against padded attention, on a GPU or in Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from compiling import assert_compiles
from regard.attention.attend import attend_ragged
from regard.attention.masks import causal as causal_mask
from regard.attention.select import soft
from regard.data.ragged import Lengths

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is first imported, in the next line
kernels = pytest.importorskip("regard.attention.kernels")

LENGTHS = [[1], [2, 1], [15, 16, 17], [40, 1, 2, 17]]
KEY_LENGTHS = [[3], [17, 2], [40, 1, 16], [2, 15, 33, 1]]


def parts(
    queries: Lengths, keys: Lengths, heads: int, key_width: int, value_width: int
) -> list[Tensor]:
    torch.manual_seed(0)
    sizes = ((queries, key_width), (keys, key_width), (keys, value_width))
    return [torch.randn(lengths.total, heads, width) for lengths, width in sizes]


def outcome(
    attention: Callable[..., Tensor],
    inputs: list[Tensor],
    queries: Lengths,
    keys: Lengths,
    **options: bool | Tensor,
) -> list[Tensor]:
    """The result and the gradients of query, key and value."""
    leaves = [part.clone().requires_grad_() for part in inputs]
    result = attention(*leaves, queries, keys, **options)
    gradient = torch.randn(result.shape, generator=torch.Generator().manual_seed(1))
    return [result, *torch.autograd.grad(result, leaves, gradient.to(result))]


def assert_matches_padded(
    inputs: list[Tensor],
    queries: Lengths,
    keys: Lengths,
    *,
    atol: float = 1e-5,
    attention: Callable[..., Tensor] = kernels.sentence_attention,
    **options: bool,
) -> None:
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys, **options)
    on_device = [part.to(DEVICE) for part in inputs]
    actual = outcome(attention, on_device, queries.to(DEVICE), keys.to(DEVICE), **options)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.float().cpu(), theirs, atol=atol, rtol=atol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "key_width", "value_width"), [(1, 8, 8), (2, 16, 32), (3, 32, 20), (5, 20, 8)]
)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_self_attention_matches_padded_attention(
    lengths: list[int], heads: int, key_width: int, value_width: int, causal: bool
) -> None:
    both = Lengths.of(lengths)
    assert_matches_padded(
        parts(both, both, heads, key_width, value_width), both, both, causal=causal
    )


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_prefix_mask(lengths: list[int]) -> None:
    both, prefix = Lengths.of(lengths), torch.tensor([length // 2 for length in lengths])
    inputs = parts(both, both, 2, 16, 16)
    expected = outcome(attend_ragged, inputs, both, both, causal=True, prefix=prefix)
    on_device, inputs, prefix = both.to(DEVICE), [x.to(DEVICE) for x in inputs], prefix.to(DEVICE)
    attention = kernels.sentence_attention
    actual = outcome(attention, inputs, on_device, on_device, causal=True, prefix=prefix)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_diagonal_mask(lengths: list[int], causal: bool) -> None:
    both = Lengths.of(lengths).to(DEVICE)
    query, key, value = (part.to(DEVICE) for part in parts(both, both, 2, 16, 20))
    options = {"causal": causal, "mask_diagonal": True}

    def reference(query: Tensor, key: Tensor, value: Tensor, *_: Lengths, **__: bool) -> Tensor:
        """Masked softmax of each sentence."""
        results = []
        for q, k, v in zip(*(part.split(lengths) for part in (query, key, value)), strict=True):
            scores = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
            visible = ~torch.eye(len(q), dtype=torch.bool, device=DEVICE)
            weights = soft(scores, visible.tril() if causal else visible)
            results.append(torch.einsum("hts,she->the", weights, v))
        return torch.cat(results)

    expected = outcome(reference, [query, key, value], both, both)
    for attention in (kernels.sentence_attention, attend_ragged):
        actual = outcome(attention, [query, key, value], both, both, **options)
        for ours, theirs in zip(actual, expected, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 16, 16), (4, 8, 20)])
@pytest.mark.parametrize(
    ("lengths", "key_lengths"), [*zip(LENGTHS, KEY_LENGTHS, strict=True)], ids=str
)
def test_cross_attention_matches_padded_attention(
    lengths: list[int], key_lengths: list[int], heads: int, key_width: int, value_width: int
) -> None:
    queries, keys = Lengths.of(lengths), Lengths.of(key_lengths)
    assert_matches_padded(parts(queries, keys, heads, key_width, value_width), queries, keys)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5))
def test_any_lengths_including_zero(pairs: list[tuple[int, int]]) -> None:
    queries, keys = (Lengths.of(lengths) for lengths in zip(*pairs, strict=True))
    if queries.longest and keys.longest:  # padded attention does not support empty batches
        assert_matches_padded(parts(queries, keys, 2, 8, 8), queries, keys)


def test_empty_batches() -> None:
    none, some = Lengths.of([0, 0]).to(DEVICE), Lengths.of([2, 3]).to(DEVICE)
    for queries, keys in ((none, some), (some, none), (none, none)):
        inputs = [part.to(DEVICE) for part in parts(queries, keys, 2, 8, 8)]
        for actual in outcome(kernels.sentence_attention, inputs, queries, keys):
            assert not actual.any()


def test_views_of_a_packed_projection_are_not_copied() -> None:
    lengths, sizes = Lengths.of([5, 1, 18]), [2 * 8, 2 * 8, 2 * 20]
    torch.manual_seed(0)
    product = torch.randn(lengths.total, sum(sizes))

    def split(
        attention: Callable[..., Tensor], product: Tensor, *lengths: Lengths, causal: bool
    ) -> Tensor:
        views = [part.unflatten(-1, (2, -1)) for part in product.split(sizes, -1)]
        assert all(kernels._with_contiguous_features(view) is view for view in views)
        return attention(*views, *lengths, causal=causal)

    expected = outcome(partial(split, attend_ragged), [product], lengths, lengths, causal=True)
    kernel, on_device = partial(split, kernels.sentence_attention), lengths.to(DEVICE)
    actual = outcome(kernel, [product.to(DEVICE)], on_device, on_device, causal=True)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, atol=1e-5, rtol=1e-5)


def test_other_strides_are_copied() -> None:
    lengths = Lengths.of([4, 7])
    inputs = [part.transpose(1, 2).contiguous() for part in parts(lengths, lengths, 3, 8, 8)]
    assert_matches_padded([part.transpose(1, 2) for part in inputs], lengths, lengths)


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_is_accurate_up_to_rounding(causal: bool) -> None:
    kind = torch.bfloat16 if GPU else torch.float16  # the interpreter cannot multiply bfloat16
    lengths = Lengths.of([15, 40, 3])
    inputs = [part.to(kind) for part in parts(lengths, lengths, 2, 32, 32)]
    assert_matches_padded(inputs, lengths, lengths, atol=2e-2 if GPU else 4e-3, causal=causal)


def test_result_does_not_depend_on_the_batch() -> None:
    both = Lengths.of([3, 60, 20])  # a tile of 64; alone, the first has one of 16
    inputs = [part.to(DEVICE) for part in parts(both, both, 2, 16, 16)]
    together = outcome(kernels.sentence_attention, inputs, both.to(DEVICE), both.to(DEVICE))
    again = outcome(kernels.sentence_attention, inputs, both.to(DEVICE), both.to(DEVICE))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(together, again, strict=True))

    first = Lengths.of([3]).to(DEVICE)
    alone = kernels.sentence_attention(*(part[:3] for part in inputs), first, first)
    torch.testing.assert_close(alone, together[0][:3], atol=1e-6, rtol=1e-6)


def test_last_query_is_aligned_with_the_last_key() -> None:
    queries, keys = Lengths.of([2, 4]).to(DEVICE), Lengths.of([5, 3]).to(DEVICE)
    query, key, _ = (part.to(DEVICE) for part in parts(queries, keys, 1, 8, 8))
    # With one-hot values, the output equals the weights.
    one_hot = torch.eye(8, device=DEVICE)[keys.positions][:, None]
    actual = kernels.sentence_attention(query, key, one_hot, queries, keys, causal=True)[:, 0]
    for rows, key_lengths, shape in (
        (slice(0, 2), slice(0, 5), (2, 5)),
        (slice(2, 6), slice(5, 8), (4, 3)),
    ):
        scores = query[rows, 0] @ key[key_lengths, 0].T / 8**0.5
        weights = soft(scores, causal_mask(*shape, DEVICE))
        torch.testing.assert_close(actual[rows, : shape[1]], weights, atol=1e-5, rtol=0)


def with_dropout(*inputs: Tensor | Lengths, rate: float = 0.3) -> Tensor:
    torch.manual_seed(7)
    result: Tensor = kernels.sentence_attention(*inputs, dropout=rate)
    return result


def test_dropout_rate_and_gradients() -> None:
    lengths = Lengths.of([20, 31]).to(DEVICE)
    inputs = [part.to(DEVICE) for part in parts(lengths, lengths, 3, 8, 16)]
    one_hot = torch.eye(32, device=DEVICE)[lengths.positions][:, None].expand(-1, 3, -1)
    weights = partial(with_dropout, *inputs[:2], one_hot, lengths, lengths)
    full, actual = weights(rate=0.0), weights()
    kept = (actual != 0).float() / 0.7
    torch.testing.assert_close(actual, full * kept, atol=1e-6, rtol=1e-5)
    rate = 1 - float(actual.count_nonzero()) / (3 * (20**2 + 31**2))
    assert abs(rate - 0.3) < 0.05  # seven standard deviations
    assert not torch.equal(kept[:, 0], kept[:, 1])  # heads are dropped independently
    assert torch.equal(actual, weights())

    def reference(query: Tensor, key: Tensor, value: Tensor, *_: Lengths) -> Tensor:
        """The definition, with the dropout mask of the kernel."""
        rows = [part.split([20, 31]) for part in (query, key, value, kept)]
        results = []
        for q, k, v, keep in zip(*rows, strict=True):
            scores = torch.einsum("thd,shd->ths", q, k) / q.shape[-1] ** 0.5
            weights = scores.softmax(-1) * keep[..., : len(k)]
            results.append(torch.einsum("ths,she->the", weights, v))
        return torch.cat(results)

    pairs = [outcome(f, inputs, lengths, lengths) for f in (with_dropout, reference)]
    for ours, theirs in zip(*pairs, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_supported_sizes() -> None:
    def fits(longest: int, width: int) -> bool:
        lengths, part = Lengths.of([3, longest]), torch.empty(0, 2, width)
        actual: bool = kernels.is_supported(part, part, lengths, lengths)
        return actual

    assert fits(1, 8)
    assert fits(128, 64)
    assert fits(64, 128)
    assert not fits(129, 8)
    assert not fits(128, 65)


COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from regard.attention import kernels

def compiled(kernel, **fixed):
    kinds = {"scale": "fp32", "dropout": "fp32", "seed": "*i64", "prefix": "*i64", "shorter": "i32"}
    for name in kernel.arg_names:
        kind = "*i32" if "offsets" in name else "i32" if name[-4:] in ("_row", "head") else "*bf16"
        kinds.setdefault(name, kind)
    kinds.update(dict.fromkeys(fixed, "constexpr"))
    kinds = {name: kinds[name] for name in kernel.arg_names}
    source, warps = ASTSource(kernel, kinds, fixed), kernels._warps(fixed["keys"])
    binary = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": warps})
    assert binary.metadata.shared <= 99 * 1024, binary.metadata.shared

for kernel in (kernels._forward, kernels._backward):
    for drops, side, width in ((False, 128, 64), (True, 16, 20)):
        none = {"prefix": None} if drops else {}
        compiled(
            kernel, **none, drops=drops, causal=not drops, mask_diagonal=drops,
            queries=side, keys=side, key_width=width, key_block=kernels._block(width),
            value_width=width, value_block=kernels._block(width),
        )
"""


@pytest.mark.skipif(GPU, reason="the other tests compile it")
def test_kernels_compile_without_a_gpu(tmp_path: Path) -> None:
    """The compiler rejects code that the interpreter accepts; also checks shared memory."""
    assert_compiles(COMPILE, tmp_path)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("mask", ["all", "causal", "mask_diagonal"])
@pytest.mark.parametrize("longest", [16, 30, 60, 128, 150])
@pytest.mark.parametrize(("heads", "width"), [(4, 32), (8, 64)])
def test_on_a_gpu_at_real_sizes(longest: int, heads: int, width: int, mask: str) -> None:
    torch.manual_seed(0)
    queries = Lengths.of([longest, *torch.randint(1, longest + 1, (300,)).tolist()])
    keys = Lengths.of(queries.lengths.flip(0).tolist()) if mask == "all" else queries
    inputs = [part.bfloat16() for part in parts(queries, keys, heads, width, width)]
    # Of millions of numbers in bfloat16 a few have large errors.
    options = {} if mask == "all" else {mask: True}
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys, **options)
    device_inputs, device_queries = [part.to(DEVICE) for part in inputs], queries.to(DEVICE)
    keys = device_queries if keys is queries else keys.to(DEVICE)
    actual = outcome(attend_ragged, device_inputs, device_queries, keys, **options)
    for ours, theirs in zip(actual, expected, strict=True):
        error = ours.float().cpu() - theirs
        assert error.norm() < 0.006 * theirs.norm()
        assert error.abs().max() < 2**-6 * theirs.abs().max()


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_flash_attention_with_sentences_without_keys() -> None:
    queries, keys = Lengths.of([40, 3, 60]).to(DEVICE), Lengths.of([50, 0, 7]).to(DEVICE)
    inputs = [part.to(DEVICE).bfloat16() for part in parts(queries, keys, 1, 256, 256)]
    assert not kernels.is_supported(inputs[0], inputs[2], queries, keys)
    actual = outcome(attend_ragged, inputs, queries, keys)
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys)
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, atol=3e-2, rtol=3e-2)

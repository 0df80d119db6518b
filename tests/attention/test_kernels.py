"""The sentence kernel against the padded form: on a GPU, or in Triton's interpreter."""

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
    os.environ["TRITON_INTERPRET"] = "1"  # Triton asks when it is first imported: on the next line
kernels = pytest.importorskip("regard.attention.kernels")

LENGTHS = [[1], [2, 1], [15, 16, 17], [40, 1, 2, 17]]
OTHERS = [[3], [17, 2], [40, 1, 16], [2, 15, 33, 1]]  # of the keys


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


def assert_is_padded(
    inputs: list[Tensor],
    queries: Lengths,
    keys: Lengths,
    *,
    atol: float = 1e-5,
    attention: Callable[..., Tensor] = kernels.sentence_attention,
    **options: bool,
) -> None:
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys, **options)
    there = [part.to(DEVICE) for part in inputs]
    found = outcome(attention, there, queries.to(DEVICE), keys.to(DEVICE), **options)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float().cpu(), other, atol=atol, rtol=atol)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("heads", "key_width", "value_width"), [(1, 8, 8), (2, 16, 32), (3, 32, 20), (5, 20, 8)]
)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_within_sentences(
    lengths: list[int], heads: int, key_width: int, value_width: int, causal: bool
) -> None:
    both = Lengths.of(lengths)
    assert_is_padded(parts(both, both, heads, key_width, value_width), both, both, causal=causal)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_a_prefix_is_seen_by_all(lengths: list[int]) -> None:
    both, prefix = Lengths.of(lengths), torch.tensor([length // 2 for length in lengths])
    inputs = parts(both, both, 2, 16, 16)
    expected = outcome(attend_ragged, inputs, both, both, causal=True, prefix=prefix)
    there, inputs, prefix = both.to(DEVICE), [x.to(DEVICE) for x in inputs], prefix.to(DEVICE)
    attention = kernels.sentence_attention
    found = outcome(attention, inputs, there, there, causal=True, prefix=prefix)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_diagonal_mask(lengths: list[int], causal: bool) -> None:
    both = Lengths.of(lengths).to(DEVICE)
    query, key, value = (part.to(DEVICE) for part in parts(both, both, 2, 16, 20))
    options = {"causal": causal, "mask_diagonal": True}

    def plain(query: Tensor, key: Tensor, value: Tensor, *_: Lengths, **__: bool) -> Tensor:
        """A masked softmax for each sentence."""
        results = []
        for q, k, v in zip(*(part.split(lengths) for part in (query, key, value)), strict=True):
            scores = torch.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
            seen = ~torch.eye(len(q), dtype=torch.bool, device=DEVICE)
            weights = soft(scores, seen.tril() if causal else seen)
            results.append(torch.einsum("hts,she->the", weights, v))
        return torch.cat(results)

    expected = outcome(plain, [query, key, value], both, both)
    for attention in (kernels.sentence_attention, attend_ragged):
        found = outcome(attention, [query, key, value], both, both, **options)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 16, 16), (4, 8, 20)])
@pytest.mark.parametrize(("lengths", "others"), [*zip(LENGTHS, OTHERS, strict=True)], ids=str)
def test_to_other_sentences(
    lengths: list[int], others: list[int], heads: int, key_width: int, value_width: int
) -> None:
    queries, keys = Lengths.of(lengths), Lengths.of(others)
    assert_is_padded(parts(queries, keys, heads, key_width, value_width), queries, keys)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=5))
def test_any_lengths_even_none(pairs: list[tuple[int, int]]) -> None:
    queries, keys = (Lengths.of(lengths) for lengths in zip(*pairs, strict=True))
    if queries.longest and keys.longest:  # the padded form knows no empty batch
        assert_is_padded(parts(queries, keys, 2, 8, 8), queries, keys)


def test_a_batch_of_nothing() -> None:
    none, some = Lengths.of([0, 0]).to(DEVICE), Lengths.of([2, 3]).to(DEVICE)
    for queries, keys in ((none, some), (some, none), (none, none)):
        inputs = [part.to(DEVICE) for part in parts(queries, keys, 2, 8, 8)]
        for found in outcome(kernels.sentence_attention, inputs, queries, keys):
            assert not found.any()


def test_views_of_one_product_are_read_where_they_lie() -> None:
    lengths, sizes = Lengths.of([5, 1, 18]), [2 * 8, 2 * 8, 2 * 20]
    torch.manual_seed(0)
    product = torch.randn(lengths.total, sum(sizes))

    def split(
        attention: Callable[..., Tensor], product: Tensor, *lengths: Lengths, causal: bool
    ) -> Tensor:
        views = [part.unflatten(-1, (2, -1)) for part in product.split(sizes, -1)]
        assert all(kernels._rows(view) is view for view in views)
        return attention(*views, *lengths, causal=causal)

    expected = outcome(partial(split, attend_ragged), [product], lengths, lengths, causal=True)
    kernel, there = partial(split, kernels.sentence_attention), lengths.to(DEVICE)
    found = outcome(kernel, [product.to(DEVICE)], there, there, causal=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, atol=1e-5, rtol=1e-5)


def test_other_strides_are_copied() -> None:
    lengths = Lengths.of([4, 7])
    inputs = [part.transpose(1, 2).contiguous() for part in parts(lengths, lengths, 3, 8, 8)]
    assert_is_padded([part.transpose(1, 2) for part in inputs], lengths, lengths)


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_errs_by_its_rounding(causal: bool) -> None:
    kind = torch.bfloat16 if GPU else torch.float16  # the interpreter cannot multiply bfloat16
    lengths = Lengths.of([15, 40, 3])
    inputs = [part.to(kind) for part in parts(lengths, lengths, 2, 32, 32)]
    assert_is_padded(inputs, lengths, lengths, atol=2e-2 if GPU else 4e-3, causal=causal)


def test_a_sentence_is_the_same_alone_and_in_a_batch() -> None:
    both = Lengths.of([3, 60, 20])  # a tile of 64; alone, the first has one of 16
    inputs = [part.to(DEVICE) for part in parts(both, both, 2, 16, 16)]
    together = outcome(kernels.sentence_attention, inputs, both.to(DEVICE), both.to(DEVICE))
    again = outcome(kernels.sentence_attention, inputs, both.to(DEVICE), both.to(DEVICE))
    assert all(torch.equal(one, other) for one, other in zip(together, again, strict=True))

    first = Lengths.of([3]).to(DEVICE)
    alone = kernels.sentence_attention(*(part[:3] for part in inputs), first, first)
    torch.testing.assert_close(alone, together[0][:3], atol=1e-6, rtol=1e-6)


def test_the_last_query_stands_at_the_last_key_of_its_sentence() -> None:
    queries, keys = Lengths.of([2, 4]).to(DEVICE), Lengths.of([5, 3]).to(DEVICE)
    query, key, _ = (part.to(DEVICE) for part in parts(queries, keys, 1, 8, 8))
    places = torch.eye(8, device=DEVICE)[keys.positions][:, None]  # so the result is the weights
    found = kernels.sentence_attention(query, key, places, queries, keys, causal=True)[:, 0]
    for rows, others, shape in (
        (slice(0, 2), slice(0, 5), (2, 5)),
        (slice(2, 6), slice(5, 8), (4, 3)),
    ):
        scores = query[rows, 0] @ key[others, 0].T / 8**0.5
        weights = soft(scores, causal_mask(*shape, DEVICE))
        torch.testing.assert_close(found[rows, : shape[1]], weights, atol=1e-5, rtol=0)


def dropped(*inputs: Tensor | Lengths, rate: float = 0.3) -> Tensor:
    torch.manual_seed(7)
    result: Tensor = kernels.sentence_attention(*inputs, dropout=rate)
    return result


def test_dropout_drops_its_share_of_the_weights_and_backward_the_same() -> None:
    lengths = Lengths.of([20, 31]).to(DEVICE)
    inputs = [part.to(DEVICE) for part in parts(lengths, lengths, 3, 8, 16)]
    places = torch.eye(32, device=DEVICE)[lengths.positions][:, None].expand(-1, 3, -1)
    weights = partial(dropped, *inputs[:2], places, lengths, lengths)
    full, found = weights(rate=0.0), weights()
    kept = (found != 0).float() / 0.7
    torch.testing.assert_close(found, full * kept, atol=1e-6, rtol=1e-5)
    share = 1 - float(found.count_nonzero()) / (3 * (20**2 + 31**2))
    assert abs(share - 0.3) < 0.05  # seven standard deviations
    assert not torch.equal(kept[:, 0], kept[:, 1])  # nor do two heads drop the same
    assert torch.equal(found, weights())

    def plain(query: Tensor, key: Tensor, value: Tensor, *_: Lengths) -> Tensor:
        """By the definition, with what the kernel kept."""
        rows = [part.split([20, 31]) for part in (query, key, value, kept)]
        results = []
        for q, k, v, keep in zip(*rows, strict=True):
            scores = torch.einsum("thd,shd->ths", q, k) / q.shape[-1] ** 0.5
            weights = scores.softmax(-1) * keep[..., : len(k)]
            results.append(torch.einsum("ths,she->the", weights, v))
        return torch.cat(results)

    pairs = [outcome(form, inputs, lengths, lengths) for form in (dropped, plain)]
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_what_fits() -> None:
    def fits(longest: int, width: int) -> bool:
        lengths, part = Lengths.of([3, longest]), torch.empty(0, 2, width)
        found: bool = kernels.fits(part, part, lengths, lengths)
        return found

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
    found = triton.compile(source, GPUTarget("cuda", 90, 32), {"num_warps": warps})
    assert found.metadata.shared <= 99 * 1024, found.metadata.shared

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
def test_it_compiles_for_a_gpu_that_is_not_here(tmp_path: Path) -> None:
    """The interpreter takes what the compiler refuses; this also holds the memory that it needs."""
    assert_compiles(COMPILE, tmp_path)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
@pytest.mark.parametrize("form", ["all", "causal", "mask_diagonal"])
@pytest.mark.parametrize("longest", [16, 30, 60, 128, 150])
@pytest.mark.parametrize(("heads", "width"), [(4, 32), (8, 64)])
def test_on_a_gpu_at_real_sizes(longest: int, heads: int, width: int, form: str) -> None:
    torch.manual_seed(0)
    queries = Lengths.of([longest, *torch.randint(1, longest + 1, (300,)).tolist()])
    keys = Lengths.of(queries.lengths.flip(0).tolist()) if form == "all" else queries
    inputs = [part.bfloat16() for part in parts(queries, keys, heads, width, width)]
    # Of millions of numbers in bfloat16 a few are far off; as a whole they are not.
    options = {} if form == "all" else {form: True}
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys, **options)
    there, on_device = [part.to(DEVICE) for part in inputs], queries.to(DEVICE)
    keys = on_device if keys is queries else keys.to(DEVICE)
    found = outcome(attend_ragged, there, on_device, keys, **options)
    for one, other in zip(found, expected, strict=True):
        apart = one.float().cpu() - other
        assert apart.norm() < 0.006 * other.norm()
        assert apart.abs().max() < 2**-6 * other.abs().max()


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_flash_attention_where_some_have_nothing_to_look_at() -> None:
    queries, keys = Lengths.of([40, 3, 60]).to(DEVICE), Lengths.of([50, 0, 7]).to(DEVICE)
    inputs = [part.to(DEVICE).bfloat16() for part in parts(queries, keys, 1, 256, 256)]
    assert not kernels.fits(inputs[0], inputs[2], queries, keys)
    found = outcome(attend_ragged, inputs, queries, keys)
    expected = outcome(attend_ragged, [part.float() for part in inputs], queries, keys)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.float(), theirs, atol=3e-2, rtol=3e-2)

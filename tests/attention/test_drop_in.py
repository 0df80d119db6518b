"""`MultiheadAttention` is `torch.nn.MultiheadAttention`, but for what its docstring says."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.testing import assert_close

from regard.attention import MultiheadAttention

WIDTH, HEADS, ROWS, QUERIES, KEYS = 8, 2, 3, 4, 5
LAYOUTS = ["time first", "batch first", "unbatched"]
LOOKS: list[dict[str, bool]] = [{"need_weights": False}, {}, {"average_attn_weights": False}]
CLASSES: list[Any] = [nn.MultiheadAttention, MultiheadAttention]

pytestmark = [
    # PyTorch warns of a bool mask beside a float one, and of nested tensors altogether.
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def both(**options: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """Theirs and ours, with equal weights that are all random."""
    options = {"embed_dim": WIDTH, "num_heads": HEADS, **options}
    theirs, ours = nn.MultiheadAttention(**options), MultiheadAttention(**options)
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.normal_(std=0.5)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(
    layout: str = "time first",
    widths: tuple[int, int] = (WIDTH, WIDTH),
    dtype: torch.dtype = torch.float64,
) -> list[Tensor]:
    """A query, a key and a value that want gradients."""
    found = []
    for length, width in ((QUERIES, WIDTH), (KEYS, widths[0]), (KEYS, widths[1])):
        shape = {
            "time first": (length, ROWS, width),
            "batch first": (ROWS, length, width),
            "unbatched": (length, width),
        }[layout]
        found.append(torch.randn(shape, dtype=dtype, requires_grad=True))
    return found


def added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A mask of numbers: minus infinity where the bool one is True, anything elsewhere."""
    return torch.randn(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def masks(
    layout: str, dtype: torch.dtype, queries: int = QUERIES
) -> Iterator[dict[str, Tensor | None]]:
    """Every pair of an attention mask and a padding mask; all leave the first key to be seen."""
    rows = [] if layout == "unbatched" else [ROWS]
    shapes = ([queries, KEYS], [math.prod(rows) * HEADS, queries, KEYS], [*rows, KEYS])
    flat, by_head, padded = (torch.rand(shape) > 0.6 for shape in shapes)
    for mask in (flat, by_head, padded):
        mask[..., 0] = False
    nothing = torch.zeros_like(padded)
    for attention, padding in itertools.product(
        [None, flat, by_head, added(flat, dtype), added(by_head, dtype)],
        [None, nothing, padded, added(padded, dtype)],
    ):
        yield {"attn_mask": attention, "key_padding_mask": padding}


def results(module: nn.Module, tensors: list[Tensor], **arguments: Any) -> list[Tensor | None]:
    """Output, weights, and the gradients of what a loss makes of both."""
    found, weights = module(*tensors, **arguments)
    loss = found.square().sum() + (0 if weights is None else weights.square().sum())
    wanted = [*tensors, *module.parameters()]
    return [found, weights, *torch.autograd.grad(loss, wanted)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [(WIDTH, WIDTH), (6, 7)])
@pytest.mark.parametrize("add_bias_kv", [False, True])
@pytest.mark.parametrize("add_zero_attn", [False, True])
def test_same_results_and_gradients(
    layout: str, bias: bool, widths: tuple[int, int], add_bias_kv: bool, add_zero_attn: bool
) -> None:
    theirs, ours = both(
        bias=bias,
        add_bias_kv=add_bias_kv,
        add_zero_attn=add_zero_attn,
        kdim=widths[0],
        vdim=widths[1],
        batch_first=layout == "batch first",
        dtype=torch.float64,
    )
    tensors = inputs(layout, widths)
    for given in masks(layout, torch.float64):
        for look in LOOKS:
            found, expected = (results(m, tensors, **given, **look) for m in (ours, theirs))
            assert_close(found, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("look", LOOKS)
def test_so_in_single_precision_and_for_self_attention(layout: str, look: dict[str, bool]) -> None:
    theirs, ours = both(batch_first=layout == "batch first")
    x, other = (inputs(layout, dtype=torch.float32)[1] for _ in range(2))
    for given in masks(layout, torch.float32, queries=KEYS):
        for tensors in ([x, x, x], [other, x, x]):
            found, expected = (m(*tensors, **given, **look) for m in (ours, theirs))
            assert_close(found, expected, atol=1e-5, rtol=1e-5)
            assert found[0].is_contiguous()  # as people who call view() expect


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("look", LOOKS)
def test_so_in_half_precision(dtype: torch.dtype, look: dict[str, bool]) -> None:
    theirs, ours = both(dtype=dtype)
    tensors = inputs(dtype=dtype)
    for given in masks("time first", dtype):
        found, expected = (m(*tensors, **given, **look) for m in (ours, theirs))
        assert found[0].dtype == dtype
        assert_close(found, expected, atol=0.1, rtol=0.05)


def test_so_under_autocast() -> None:
    theirs, ours = both(add_bias_kv=True)
    tensors = inputs(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        for given in masks("time first", torch.float32):
            found, expected = (m(*tensors, **given)[0] for m in (ours, theirs))
            assert_close(found, expected, atol=0.1, rtol=0.05)


@pytest.mark.parametrize("empty", [(0, 2, 3), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("look", LOOKS)
def test_no_queries_no_keys_or_no_rows(empty: tuple[int, int, int], look: dict[str, bool]) -> None:
    theirs, ours = both()
    queries, keys, rows = empty
    query, key = torch.randn(queries, rows, WIDTH), torch.randn(keys, rows, WIDTH)
    assert_close(ours(query, key, key, **look), theirs(query, key, key, **look))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("look", LOOKS)
def test_the_hint_that_a_mask_is_causal_changes_nothing(
    causal: bool, look: dict[str, bool]
) -> None:
    theirs, ours = both()
    x = torch.randn(KEYS, ROWS, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(KEYS)
    expected = theirs(x, x, x, attn_mask=mask, is_causal=causal, **look)
    assert_close(ours(x, x, x, attn_mask=mask, is_causal=causal, **look), expected)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"kdim": 6},
    {"vdim": 7, "bias": False},
    {"add_bias_kv": True, "kdim": 3, "vdim": 5},
    {"add_bias_kv": True, "add_zero_attn": True, "dtype": torch.float64},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_begin_equal_and_move_both_ways(options: dict[str, Any]) -> None:
    made = []
    for cls in CLASSES:
        torch.manual_seed(7)
        made.append(cls(WIDTH, HEADS, **options))
        made[-1].after = torch.rand(3)  # as many numbers were drawn
    theirs, ours = made
    assert torch.equal(theirs.after, ours.after)
    assert [name for name, _ in theirs.named_parameters()] == [
        name for name, _ in ours.named_parameters()
    ]
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for one, other in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert torch.equal(one, other)
    for name in ("in_proj_weight", "q_proj_weight", "in_proj_bias", "bias_k", "bias_v"):
        assert (getattr(theirs, name) is None) == (getattr(ours, name) is None)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)


@pytest.mark.parametrize("sizes", [(8, 3), (0, 2), (8, 0), (-8, 2), (8, -2)])
def test_sizes_that_do_not_fit(sizes: tuple[int, int]) -> None:
    errors = []
    for cls in CLASSES:
        with pytest.raises((AssertionError, ValueError)) as caught:
            cls(*sizes)
        errors.append((caught.type, str(caught.value)))
    assert errors[0] == errors[1]


X, FLAT = torch.randn(4, 3, 8), torch.randn(4, 8)
NOTHING = torch.zeros(4, 4)
REFUSED: dict[str, tuple[tuple[Tensor, ...], dict[str, Any]]] = {
    "a query of 4 dims": ((X[None],) * 3, {}),
    "a query of 1 dim": ((FLAT[0],) * 3, {}),
    "a flat key": ((X, FLAT, X), {}),
    "a flat value": ((X, X, FLAT), {}),
    "a batched key": ((FLAT, X, FLAT), {}),
    "a query too narrow": ((X[..., :4], X, X), {}),
    "a key too narrow": ((X, X[..., :4], X[..., :4]), {}),
    "a value unlike the key": ((X, X, X[..., :4]), {}),
    "fewer values than keys": ((X, X, X[:2]), {}),
    "one row of keys": ((X, X[:, :1], X[:, :1]), {}),
    "one row of queries": ((X[:, :1], X, X), {}),
    "another type": ((X.double(),) * 3, {}),
    "a causal hint alone": ((X,) * 3, {"is_causal": True}),
    "a mask of integers": ((X,) * 3, {"attn_mask": NOTHING.int()}),
    "a mask of bytes": ((X,) * 3, {"attn_mask": NOTHING.byte()}),
    "a mask of doubles": ((X,) * 3, {"attn_mask": NOTHING.double()}),
    "a mask of halves": ((X,) * 3, {"attn_mask": NOTHING.half()}),
    "a mask of the wrong shape": ((X,) * 3, {"attn_mask": torch.zeros(4, 5)}),
    "a mask for too many heads": ((X,) * 3, {"attn_mask": torch.zeros(7, 4, 4)}),
    "a mask for one head": ((X,) * 3, {"attn_mask": torch.zeros(1, 4, 4)}),
    "a mask of 1 dim": ((X,) * 3, {"attn_mask": torch.zeros(4)}),
    "a mask of 4 dims": ((X,) * 3, {"attn_mask": torch.zeros(3, 2, 4, 4)}),
    "a mask for a batch": ((FLAT,) * 3, {"attn_mask": torch.zeros(6, 4, 4)}),
    "a flat mask that does not fit": ((FLAT,) * 3, {"attn_mask": torch.zeros(4, 3)}),
    "padding of integers": ((X,) * 3, {"key_padding_mask": torch.zeros(3, 4).int()}),
    "padding of doubles": ((X,) * 3, {"key_padding_mask": torch.zeros(3, 4).double()}),
    "padding of 1 dim": ((X,) * 3, {"key_padding_mask": torch.zeros(4)}),
    "padding for a batch": ((FLAT,) * 3, {"key_padding_mask": torch.zeros(1, 4)}),
    "padding of too few keys": ((X,) * 3, {"key_padding_mask": torch.zeros(3, 3)}),
    "padding of one row": ((X,) * 3, {"key_padding_mask": torch.zeros(1, 4)}),
    "padding of too few flat keys": ((FLAT,) * 3, {"key_padding_mask": torch.zeros(3)}),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_same_errors(case: str, need_weights: bool) -> None:
    tensors, arguments = REFUSED[case]
    theirs, ours = both()
    with pytest.raises((AssertionError, RuntimeError)) as expected:
        theirs(*tensors, need_weights=need_weights, **arguments)
    with pytest.raises(expected.type) as found:
        ours(*tensors, need_weights=need_weights, **arguments)
    assert found.type is expected.type
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("widths", [(5, 7), (6, 6), (6, 8)])
def test_the_same_errors_where_keys_and_values_have_widths_of_their_own(
    widths: tuple[int, int],
) -> None:
    theirs, ours = both(kdim=6, vdim=7)
    tensors = inputs("time first", widths, dtype=torch.float32)
    for module in (theirs, ours):
        with pytest.raises(AssertionError, match=r"expecting (key|value) weights shape of \(8, "):
            module(*tensors)
    tensors = inputs("time first", (6, 7), dtype=torch.float32)
    for module in (theirs, ours):
        with pytest.raises(AssertionError, match="key's sequence and batch dims"):
            module(*tensors[:2], tensors[2][:2])


@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("by", ["attn_mask", "key_padding_mask"])
@pytest.mark.parametrize("look", LOOKS)
def test_who_may_look_nowhere_gathers_zeros(kind: str, by: str, look: dict[str, bool]) -> None:
    _, ours = both(dtype=torch.float64)
    mask = torch.zeros(ROWS * HEADS, QUERIES, KEYS, dtype=torch.bool)
    mask[:HEADS, 1] = by == "attn_mask"  # the second query of the first row
    padded = torch.zeros(ROWS, KEYS, dtype=torch.bool)
    padded[0] = by == "key_padding_mask"
    given = {"attn_mask": mask, "key_padding_mask": padded}
    if kind == "float":
        given = {name: added(part, torch.float64) for name, part in given.items()}
    found, weights, *gradients = results(ours, inputs(), **given, **look)
    assert found is not None
    assert all(part is not None and part.isfinite().all() for part in (found, *gradients))
    assert_close(found[1, 0], ours.out_proj.bias, atol=0, rtol=0)  # of zeros, the bias remains
    assert weights is None or (weights[0, ..., 1, :] == 0).all()


def test_a_head_that_may_look_nowhere_leaves_it_to_the_others() -> None:
    _, ours = both(dtype=torch.float64)
    mask = torch.zeros(ROWS * HEADS, QUERIES, KEYS, dtype=torch.bool)
    mask[0] = True
    found, weights, *gradients = results(ours, inputs(), attn_mask=mask, average_attn_weights=False)
    assert weights is not None
    assert weights.sum(-1)[0].tolist() == [[0.0] * QUERIES, pytest.approx([1.0] * QUERIES)]
    assert all(part is not None and part.isfinite().all() for part in (found, *gradients))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("look", LOOKS)
def test_a_padded_key_counts_for_nothing_whatever_it_holds(
    layout: str, kind: str, junk: float, look: dict[str, bool]
) -> None:
    _, ours = both(dtype=torch.float64, batch_first=layout == "batch first")
    query, key, value = (x.detach() for x in inputs(layout))
    padded = torch.zeros([KEYS] if layout == "unbatched" else [ROWS, KEYS], dtype=torch.bool)
    padded[..., 3:] = True
    hidden = (padded.T if layout == "time first" else padded)[..., None]
    mask = added(padded, torch.float64) if kind == "float" else padded
    outcomes = []
    for filling in (0.0, junk):
        tensors = [query, key.masked_fill(hidden, filling), value.masked_fill(hidden, filling)]
        tensors = [x.requires_grad_() for x in tensors]
        outcomes.append(results(ours, tensors, key_padding_mask=mask, **look))
    assert_close(outcomes[1], outcomes[0], atol=0, rtol=0)
    if outcomes[1][1] is not None:
        assert (outcomes[1][1][..., 3:] == 0).all()


@pytest.mark.parametrize("look", LOOKS)
def test_dropout_draws_what_theirs_draws(look: dict[str, bool]) -> None:
    theirs, ours = both(dropout=0.4, dtype=torch.float64)
    tensors = inputs()
    outcomes = []
    for module in (theirs, ours):
        torch.manual_seed(3)
        outcomes.append(module(*tensors, **look))
    assert_close(*outcomes)
    assert_close(ours.eval()(*tensors, **look), theirs.eval()(*tensors, **look))


def test_dropout_keeps_the_mean_and_falls_on_the_weights() -> None:
    _, ours = both(dropout=0.3, dtype=torch.float64)
    tensors = inputs()
    weights = torch.stack(
        [ours(*tensors, average_attn_weights=False)[1].detach() for _ in range(2000)]
    )
    expected = ours.eval()(*tensors, average_attn_weights=False)[1].detach()
    assert float((weights == 0).double().mean()) == pytest.approx(0.3, abs=0.01)
    assert_close(weights[weights > 0].min(), expected[expected > 0].min() / 0.7)
    assert_close(weights.mean(0), expected, atol=0.08, rtol=0)


def with_ours(model: nn.Module) -> nn.Module:
    """A copy of the model with our attention in place of PyTorch's."""
    model = copy.deepcopy(model)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.MultiheadAttention):
                same = {"dropout": child.dropout, "bias": child.in_proj_bias is not None}
                ours = MultiheadAttention(
                    child.embed_dim, child.num_heads, batch_first=child.batch_first, **same
                )
                ours.load_state_dict(child.state_dict())
                setattr(module, name, ours.train(child.training))
    assert not any(type(module) is nn.MultiheadAttention for module in model.modules())
    return model


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mode", ["train", "eval", "inference"])
@pytest.mark.parametrize("bias", [True, False])
def test_inside_pytorchs_transformer(
    batch_first: bool, norm_first: bool, mode: str, bias: bool
) -> None:
    theirs = nn.Transformer(
        *(WIDTH, HEADS, 2, 2, 12, 0.0),
        batch_first=batch_first,
        norm_first=norm_first,
        bias=bias,
    ).train(mode == "train")
    ours = with_ours(theirs)
    source, target = torch.randn(ROWS, KEYS, WIDTH), torch.randn(ROWS, QUERIES, WIDTH)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    padded = torch.arange(KEYS) >= torch.tensor([5, 2, 3])[:, None]
    causal = nn.Transformer.generate_square_subsequent_mask(QUERIES)
    with torch.inference_mode(mode == "inference"):
        for given in (
            {},
            {"src_key_padding_mask": padded, "memory_key_padding_mask": padded},
            {"tgt_mask": causal, "tgt_is_causal": True},
            {"src_mask": torch.ones(KEYS, KEYS).triu(1).bool(), "src_key_padding_mask": padded},
        ):
            found, expected = (m(source, target, **given) for m in (ours, theirs))
            assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("hooked", [True, False])
def test_inside_pytorchs_encoder_with_nested_tensors(fast: bool, hooked: bool) -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, 0.0, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2).eval()
    ours = with_ours(theirs)
    if hooked:  # PyTorch's layer then calls its parts, with a nested tensor
        for model in (theirs, ours):
            model.get_submodule("layers.0.linear1").register_forward_hook(lambda *_: None)
    x = torch.randn(ROWS, KEYS, WIDTH)
    padded = torch.arange(KEYS) >= torch.tensor([5, 2, 3])[:, None]
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.no_grad():
            found, expected = (m(x, src_key_padding_mask=padded)[~padded] for m in (ours, theirs))
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


def nested(*lengths: int) -> Tensor:
    return torch.nested.nested_tensor([torch.randn(length, WIDTH) for length in lengths])


@pytest.mark.parametrize("look", LOOKS)
def test_nested_tensors(look: dict[str, bool]) -> None:
    theirs, ours = (module.eval() for module in both(batch_first=True))
    x = nested(4, 2, 3)
    with torch.no_grad():
        (found, weights), (expected, their_weights) = (m(x, x, x, **look) for m in (ours, theirs))
    assert_close(list(found.unbind()), list(expected.unbind()))
    assert_close(weights, their_weights)


def test_nested_tensors_only_where_theirs_may_be() -> None:
    x, other = nested(4, 2), nested(4, 2)
    mask = torch.zeros(2, 4, dtype=torch.bool)
    theirs, ours = (module.eval() for module in both(batch_first=True))
    first_theirs, first_ours = (module.eval() for module in both())
    for module in (theirs, ours, first_theirs, first_ours):
        refused = [((x, other, other), {}), ((x, x, x), {"key_padding_mask": mask})]
        refused += [((x, x, x), {})] if module in (first_theirs, first_ours) else []
        for tensors, given in refused:
            with torch.no_grad(), pytest.raises(AssertionError, match="outside of its fast path"):
                module(*tensors, **given)
        if module in (theirs, ours):
            with pytest.raises(AssertionError, match=r"fast path.*grad is enabled and .*requires"):
                module(x, x, x)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("padded", [True, False])
def test_masks_are_merged_as_theirs(heads: int | None, padded: bool) -> None:
    theirs, ours = both()
    query = torch.randn(ROWS, 4, WIDTH)
    mask = torch.rand((4, 4) if heads is None else (ROWS * heads, 4, 4)) > 0.5
    padding = torch.rand(ROWS, 4) > 0.5 if padded else None
    for attention in (mask, None, added(mask, torch.float32)):
        both_masks = (attention, padding, query)
        if attention is not None and attention.is_floating_point() and padding is not None:
            both_masks = (attention, added(padding, torch.float32), query)
        found, expected = ours.merge_masks(*both_masks), theirs.merge_masks(*both_masks)
        assert found[1] == expected[1]
        assert_close(found[0], expected[0])


def test_a_bias_may_be_of_another_type() -> None:
    _, ours = both(dtype=torch.float64)
    x = torch.randn(4, ROWS, WIDTH, dtype=torch.float64)
    expected = ours(x, x, x)
    assert ours.in_proj_bias is not None
    ours.in_proj_bias = nn.Parameter(ours.in_proj_bias.half())
    assert_close(ours(x, x, x), expected, atol=0.01, rtol=0)


def test_copies_and_old_pickles() -> None:
    _, ours = both()
    x = torch.randn(4, ROWS, WIDTH)
    assert_close(copy.deepcopy(ours)(x, x, x), ours(x, x, x))
    old = MultiheadAttention.__new__(MultiheadAttention)
    state = {k: v for k, v in vars(ours).items() if k != "_qkv_same_embed_dim"}
    old.__setstate__(state)  # type: ignore[no-untyped-call]
    assert_close(old(x, x, x), ours(x, x, x))


class Doubled(nn.Module):
    """A parametrisation that can be seen."""

    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_weights_may_be_parametrised() -> None:
    modules = both()
    for module in modules:
        parametrize.register_parametrization(module, "in_proj_weight", Doubled())
        parametrize.register_parametrization(module.out_proj, "weight", Doubled())
    x = torch.randn(4, ROWS, WIDTH)
    found, expected = (module(x, x, x) for module in reversed(modules))
    assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("look", LOOKS)
def test_it_compiles_as_one_graph(look: dict[str, bool]) -> None:
    _, ours = both(add_zero_attn=True)
    tensors = inputs(dtype=torch.float32)
    mask = torch.rand(QUERIES, KEYS) > 0.5
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    assert_close(compiled(*tensors, attn_mask=mask, **look), ours(*tensors, attn_mask=mask, **look))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_it_is_traced_and_exported() -> None:
    _, ours = both()
    tensors = tuple(x.detach() for x in inputs(dtype=torch.float32))
    for other in (torch.jit.trace(ours, tensors), torch.export.export(ours, tensors).module()):
        assert_close(other(*tensors), ours(*tensors))


def test_it_says_what_it_is() -> None:
    assert "8, 2, dropout=0.1, kdim=6, vdim=8, batch_first=True" in repr(
        MultiheadAttention(8, 2, 0.1, kdim=6, batch_first=True)
    )

"""`MultiheadAttention` against `torch.nn.MultiheadAttention`."""

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
WEIGHT_OPTIONS: list[dict[str, bool]] = [
    {"need_weights": False},
    {},
    {"average_attn_weights": False},
]
CLASSES: list[Any] = [nn.MultiheadAttention, MultiheadAttention]

pytestmark = [
    # PyTorch warns about a bool mask with a float mask, and about nested tensors.
    pytest.mark.filterwarnings("ignore:Support for mismatched:UserWarning"),
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor is True, but:UserWarning"),
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def both(**options: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """PyTorch's module and ours with equal random weights."""
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
    """A query, a key and a value that require gradients."""
    tensors = []
    for length, width in ((QUERIES, WIDTH), (KEYS, widths[0]), (KEYS, widths[1])):
        shape = {
            "time first": (length, ROWS, width),
            "batch first": (ROWS, length, width),
            "unbatched": (length, width),
        }[layout]
        tensors.append(torch.randn(shape, dtype=dtype, requires_grad=True))
    return tensors


def float_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """A float mask: minus infinity where the bool mask is True, random elsewhere."""
    return torch.randn(mask.shape, dtype=dtype).masked_fill(mask, -math.inf)


def masks(
    layout: str, dtype: torch.dtype, queries: int = QUERIES
) -> Iterator[dict[str, Tensor | None]]:
    """All pairs of an attention mask and a padding mask; the first key is always visible."""
    rows = [] if layout == "unbatched" else [ROWS]
    shapes = ([queries, KEYS], [math.prod(rows) * HEADS, queries, KEYS], [*rows, KEYS])
    flat, by_head, padded = (torch.rand(shape) > 0.6 for shape in shapes)
    for mask in (flat, by_head, padded):
        mask[..., 0] = False
    nothing = torch.zeros_like(padded)
    for attention, padding in itertools.product(
        [None, flat, by_head, float_mask(flat, dtype), float_mask(by_head, dtype)],
        [None, nothing, padded, float_mask(padded, dtype)],
    ):
        yield {"attn_mask": attention, "key_padding_mask": padding}


def results(module: nn.Module, tensors: list[Tensor], **arguments: Any) -> list[Tensor | None]:
    """Output, weights, and the gradients of a loss on both."""
    output, weights = module(*tensors, **arguments)
    loss = output.square().sum() + (0 if weights is None else weights.square().sum())
    return [output, weights, *torch.autograd.grad(loss, [*tensors, *module.parameters()])]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [(WIDTH, WIDTH), (6, 7)])
@pytest.mark.parametrize("add_bias_kv", [False, True])
@pytest.mark.parametrize("add_zero_attn", [False, True])
def test_results_and_gradients_match_torch(
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
    for mask_arguments in masks(layout, torch.float64):
        for options in WEIGHT_OPTIONS:
            actual, expected = (
                results(m, tensors, **mask_arguments, **options) for m in (ours, theirs)
            )
            assert_close(actual, expected, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_single_precision_and_self_attention_match_torch(
    layout: str, options: dict[str, bool]
) -> None:
    theirs, ours = both(batch_first=layout == "batch first")
    x, theirs_weight = (inputs(layout, dtype=torch.float32)[1] for _ in range(2))
    for mask_arguments in masks(layout, torch.float32, queries=KEYS):
        for tensors in ([x, x, x], [theirs_weight, x, x]):
            actual, expected = (m(*tensors, **mask_arguments, **options) for m in (ours, theirs))
            assert_close(actual, expected, atol=1e-5, rtol=1e-5)
            assert actual[0].is_contiguous()  # so that `view` works


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_half_precision_matches_torch(dtype: torch.dtype, options: dict[str, bool]) -> None:
    theirs, ours = both(dtype=dtype)
    tensors = inputs(dtype=dtype)
    for mask_arguments in masks("time first", dtype):
        actual, expected = (m(*tensors, **mask_arguments, **options) for m in (ours, theirs))
        assert actual[0].dtype == dtype
        assert_close(actual, expected, atol=0.1, rtol=0.05)


def test_autocast_matches_torch() -> None:
    theirs, ours = both(add_bias_kv=True)
    tensors = inputs(dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        for mask_arguments in masks("time first", torch.float32):
            actual, expected = (m(*tensors, **mask_arguments)[0] for m in (ours, theirs))
            assert_close(actual, expected, atol=0.1, rtol=0.05)


@pytest.mark.parametrize("empty", [(0, 2, 3), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_empty_inputs_match_torch(empty: tuple[int, int, int], options: dict[str, bool]) -> None:
    theirs, ours = both()
    queries, keys, rows = empty
    query, key = torch.randn(queries, rows, WIDTH), torch.randn(keys, rows, WIDTH)
    assert_close(ours(query, key, key, **options), theirs(query, key, key, **options))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_is_causal_has_no_effect_with_a_mask(causal: bool, options: dict[str, bool]) -> None:
    theirs, ours = both()
    x = torch.randn(KEYS, ROWS, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(KEYS)
    expected = theirs(x, x, x, attn_mask=mask, is_causal=causal, **options)
    assert_close(ours(x, x, x, attn_mask=mask, is_causal=causal, **options), expected)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"kdim": 6},
    {"vdim": 7, "bias": False},
    {"add_bias_kv": True, "kdim": 3, "vdim": 5},
    {"add_bias_kv": True, "add_zero_attn": True, "dtype": torch.float64},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_initialization_and_state_dict_match_torch(options: dict[str, Any]) -> None:
    modules = []
    for cls in CLASSES:
        torch.manual_seed(7)
        modules.append(cls(WIDTH, HEADS, **options))
        modules[-1].after = torch.rand(3)  # the same number of random draws
    theirs, ours = modules
    assert torch.equal(theirs.after, ours.after)
    assert [name for name, _ in theirs.named_parameters()] == [
        name for name, _ in ours.named_parameters()
    ]
    assert list(theirs.state_dict()) == list(ours.state_dict())
    for ours_weight, theirs_weight in zip(theirs.parameters(), ours.parameters(), strict=True):
        assert torch.equal(ours_weight, theirs_weight)
    for name in ("in_proj_weight", "q_proj_weight", "in_proj_bias", "bias_k", "bias_v"):
        assert (getattr(theirs, name) is None) == (getattr(ours, name) is None)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    theirs.load_state_dict(ours.state_dict(), strict=True)


@pytest.mark.parametrize("sizes", [(8, 3), (0, 2), (8, 0), (-8, 2), (8, -2)])
def test_invalid_sizes_raise_torch_errors(sizes: tuple[int, int]) -> None:
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
def test_invalid_inputs_raise_torch_errors(case: str, need_weights: bool) -> None:
    tensors, arguments = REFUSED[case]
    theirs, ours = both()
    with pytest.raises((AssertionError, RuntimeError)) as expected:
        theirs(*tensors, need_weights=need_weights, **arguments)
    with pytest.raises(expected.type) as actual:
        ours(*tensors, need_weights=need_weights, **arguments)
    assert actual.type is expected.type
    assert str(actual.value) == str(expected.value)


@pytest.mark.parametrize("widths", [(5, 7), (6, 6), (6, 8)])
def test_invalid_kdim_and_vdim_raise_torch_errors(
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
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_fully_masked_queries_give_zeros(kind: str, by: str, options: dict[str, bool]) -> None:
    _, ours = both(dtype=torch.float64)
    mask = torch.zeros(ROWS * HEADS, QUERIES, KEYS, dtype=torch.bool)
    mask[:HEADS, 1] = by == "attn_mask"  # the second query of the first row
    padded = torch.zeros(ROWS, KEYS, dtype=torch.bool)
    padded[0] = by == "key_padding_mask"
    mask_arguments = {"attn_mask": mask, "key_padding_mask": padded}
    if kind == "float":
        mask_arguments = {
            name: float_mask(part, torch.float64) for name, part in mask_arguments.items()
        }
    actual, weights, *gradients = results(ours, inputs(), **mask_arguments, **options)
    assert actual is not None
    assert all(part is not None and part.isfinite().all() for part in (actual, *gradients))
    assert_close(actual[1, 0], ours.out_proj.bias, atol=0, rtol=0)  # the projection of zeros
    assert weights is None or (weights[0, ..., 1, :] == 0).all()


def test_fully_masked_head_has_zero_weights() -> None:
    _, ours = both(dtype=torch.float64)
    mask = torch.zeros(ROWS * HEADS, QUERIES, KEYS, dtype=torch.bool)
    mask[0] = True
    actual, weights, *gradients = results(
        ours, inputs(), attn_mask=mask, average_attn_weights=False
    )
    assert weights is not None
    assert weights.sum(-1)[0].tolist() == [[0.0] * QUERIES, pytest.approx([1.0] * QUERIES)]
    assert all(part is not None and part.isfinite().all() for part in (actual, *gradients))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["bool", "float"])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_padded_keys_may_be_nonfinite(
    layout: str, kind: str, junk: float, options: dict[str, bool]
) -> None:
    _, ours = both(dtype=torch.float64, batch_first=layout == "batch first")
    query, key, value = (x.detach() for x in inputs(layout))
    padded = torch.zeros([KEYS] if layout == "unbatched" else [ROWS, KEYS], dtype=torch.bool)
    padded[..., 3:] = True
    hidden = (padded.T if layout == "time first" else padded)[..., None]
    mask = float_mask(padded, torch.float64) if kind == "float" else padded
    outputs = []
    for filling in (0.0, junk):
        tensors = [query, key.masked_fill(hidden, filling), value.masked_fill(hidden, filling)]
        tensors = [x.requires_grad_() for x in tensors]
        outputs.append(results(ours, tensors, key_padding_mask=mask, **options))
    assert_close(outputs[1], outputs[0], atol=0, rtol=0)
    if outputs[1][1] is not None:
        assert (outputs[1][1][..., 3:] == 0).all()


@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_dropout_matches_torch(options: dict[str, bool]) -> None:
    theirs, ours = both(dropout=0.4, dtype=torch.float64)
    tensors = inputs()
    outputs = []
    for module in (theirs, ours):
        torch.manual_seed(3)
        outputs.append(module(*tensors, **options))
    assert_close(*outputs)
    assert_close(ours.eval()(*tensors, **options), theirs.eval()(*tensors, **options))


def test_dropout_is_applied_to_weights() -> None:
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
def test_replaces_attention_of_torch_transformer(
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
        for mask_arguments in (
            {},
            {"src_key_padding_mask": padded, "memory_key_padding_mask": padded},
            {"tgt_mask": causal, "tgt_is_causal": True},
            {"src_mask": torch.ones(KEYS, KEYS).triu(1).bool(), "src_key_padding_mask": padded},
        ):
            actual, expected = (m(source, target, **mask_arguments) for m in (ours, theirs))
            assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("hooked", [True, False])
def test_replaces_attention_of_torch_encoder_with_nested_tensors(fast: bool, hooked: bool) -> None:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 12, 0.0, batch_first=True)
    theirs = nn.TransformerEncoder(layer, 2).eval()
    ours = with_ours(theirs)
    if hooked:  # then PyTorch's layer calls its submodules with a nested tensor
        for model in (theirs, ours):
            model.get_submodule("layers.0.linear1").register_forward_hook(lambda *_: None)
    x = torch.randn(ROWS, KEYS, WIDTH)
    padded = torch.arange(KEYS) >= torch.tensor([5, 2, 3])[:, None]
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.no_grad():
            actual, expected = (m(x, src_key_padding_mask=padded)[~padded] for m in (ours, theirs))
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def nested(*lengths: int) -> Tensor:
    return torch.nested.nested_tensor([torch.randn(length, WIDTH) for length in lengths])


@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_nested_tensors(options: dict[str, bool]) -> None:
    theirs, ours = (module.eval() for module in both(batch_first=True))
    x = nested(4, 2, 3)
    with torch.no_grad():
        (actual, weights), (expected, their_weights) = (
            m(x, x, x, **options) for m in (ours, theirs)
        )
    assert_close(list(actual.unbind()), list(expected.unbind()))
    assert_close(weights, their_weights)


def test_nested_tensors_raise_torch_errors() -> None:
    x, theirs_weight = nested(4, 2), nested(4, 2)
    mask = torch.zeros(2, 4, dtype=torch.bool)
    theirs, ours = (module.eval() for module in both(batch_first=True))
    first_theirs, first_ours = (module.eval() for module in both())
    for module in (theirs, ours, first_theirs, first_ours):
        refused = [((x, theirs_weight, theirs_weight), {}), ((x, x, x), {"key_padding_mask": mask})]
        refused += [((x, x, x), {})] if module in (first_theirs, first_ours) else []
        for tensors, mask_arguments in refused:
            with torch.no_grad(), pytest.raises(AssertionError, match="outside of its fast path"):
                module(*tensors, **mask_arguments)
        if module in (theirs, ours):
            with pytest.raises(AssertionError, match=r"fast path.*grad is enabled and .*requires"):
                module(x, x, x)


@pytest.mark.parametrize("heads", [None, 2])
@pytest.mark.parametrize("padded", [True, False])
def test_merge_masks_matches_torch(heads: int | None, padded: bool) -> None:
    theirs, ours = both()
    query = torch.randn(ROWS, 4, WIDTH)
    mask = torch.rand((4, 4) if heads is None else (ROWS * heads, 4, 4)) > 0.5
    padding = torch.rand(ROWS, 4) > 0.5 if padded else None
    for attention in (mask, None, float_mask(mask, torch.float32)):
        both_masks = (attention, padding, query)
        if attention is not None and attention.is_floating_point() and padding is not None:
            both_masks = (attention, float_mask(padding, torch.float32), query)
        actual, expected = ours.merge_masks(*both_masks), theirs.merge_masks(*both_masks)
        assert actual[1] == expected[1]
        assert_close(actual[0], expected[0])


def test_bias_of_another_dtype() -> None:
    _, ours = both(dtype=torch.float64)
    x = torch.randn(4, ROWS, WIDTH, dtype=torch.float64)
    expected = ours(x, x, x)
    assert ours.in_proj_bias is not None
    ours.in_proj_bias = nn.Parameter(ours.in_proj_bias.half())
    assert_close(ours(x, x, x), expected, atol=0.01, rtol=0)


def test_deepcopy_and_setstate() -> None:
    _, ours = both()
    x = torch.randn(4, ROWS, WIDTH)
    assert_close(copy.deepcopy(ours)(x, x, x), ours(x, x, x))
    old = MultiheadAttention.__new__(MultiheadAttention)
    state = {k: v for k, v in vars(ours).items() if k != "_qkv_same_embed_dim"}
    old.__setstate__(state)  # type: ignore[no-untyped-call]
    assert_close(old(x, x, x), ours(x, x, x))


class Doubled(nn.Module):
    """A parametrization with a visible effect."""

    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def test_parametrized_weights() -> None:
    modules = both()
    for module in modules:
        parametrize.register_parametrization(module, "in_proj_weight", Doubled())
        parametrize.register_parametrization(module.out_proj, "weight", Doubled())
    x = torch.randn(4, ROWS, WIDTH)
    actual, expected = (module(x, x, x) for module in reversed(modules))
    assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("options", WEIGHT_OPTIONS)
def test_compiles_without_graph_breaks(options: dict[str, bool]) -> None:
    _, ours = both(add_zero_attn=True)
    tensors = inputs(dtype=torch.float32)
    mask = torch.rand(QUERIES, KEYS) > 0.5
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    assert_close(
        compiled(*tensors, attn_mask=mask, **options), ours(*tensors, attn_mask=mask, **options)
    )


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_trace_and_export() -> None:
    _, ours = both()
    tensors = tuple(x.detach() for x in inputs(dtype=torch.float32))
    for theirs_weight in (
        torch.jit.trace(ours, tensors),
        torch.export.export(ours, tensors).module(),
    ):
        assert_close(theirs_weight(*tensors), ours(*tensors))


def test_repr() -> None:
    assert "8, 2, dropout=0.1, kdim=6, vdim=8, batch_first=True" in repr(
        MultiheadAttention(8, 2, 0.1, kdim=6, batch_first=True)
    )

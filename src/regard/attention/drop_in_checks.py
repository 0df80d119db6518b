"""What `torch.nn.MultiheadAttention` refuses, with its types of error and nearly in its words."""

from __future__ import annotations

import torch
from torch import Tensor


def check_sizes(embed_dim: int, num_heads: int) -> None:
    """Heads share the width evenly."""
    if embed_dim <= 0 or num_heads <= 0:
        raise ValueError(
            "embed_dim and num_heads must be greater than 0, "
            f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
        )
    if embed_dim % num_heads:
        raise AssertionError("embed_dim must be divisible by num_heads")


def check_dims(query: Tensor, key: Tensor, value: Tensor) -> None:
    """All are batched (3-D) or none is (2-D)."""
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query tensor"
        )
    if not key.dim() == value.dim() == dims:
        raise AssertionError(
            f"For {_kind(query)} `query`, expected `key` and `value` to be {dims}-D "
            f"but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )


def check_queries(query: Tensor, key: Tensor, embed_dim: int, rows_at: int) -> None:
    """Queries have the promised width, and as many rows as keys; `rows_at` is the rows' axis."""
    if query.shape[-1] != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}"
        )
    if query.dim() == 3 and query.shape[rows_at] != key.shape[rows_at]:
        raise RuntimeError(
            f"query has a batch of {query.shape[rows_at]}, but key has one of {key.shape[rows_at]}"
        )


def check_values(key: Tensor, value: Tensor) -> None:
    """One value for each key, as wide as it."""
    if key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def check_values_apart(key: Tensor, value: Tensor, kdim: int, vdim: int, embed_dim: int) -> None:
    """One value for each key, each with the width that was promised."""
    if key.shape[:-1] != value.shape[:-1]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:-1]} do not match value's "
            f"{value.shape[:-1]}"
        )
    for name, x, width in (("key", key, kdim), ("value", value, vdim)):
        if x.shape[-1] != width:
            raise AssertionError(
                f"expecting {name} weights shape of {(embed_dim, x.shape[-1])}, "
                f"but got {(embed_dim, width)}"
            )


def check_padding_mask(mask: Tensor, query: Tensor, rows: int, keys: int) -> None:
    """Bool or floating, (B, S), or (S,) where the query is unbatched."""
    _check_type(mask, query, "key_padding_mask")
    if mask.dim() != query.dim() - 1:
        raise AssertionError(
            f"For {_kind(query)} `query`, expected `key_padding_mask` to be `None` or "
            f"{query.dim() - 1}-D but found {mask.dim()}-D tensor instead"
        )
    for axis, (found, wanted) in enumerate(zip((1, *mask.shape)[-2:], (rows, keys), strict=True)):
        if found != wanted:
            raise AssertionError(
                f"Expected key_padded_mask.shape[{axis}] to be {wanted}, but got {found}"
            )


def check_attention_mask(mask: Tensor, query: Tensor, shape: tuple[int, int, int]) -> None:
    """Bool or floating, as `shape` (B*H, T, S) says, or the last two of it."""
    _check_type(mask, query, "attn_mask")
    dims = mask.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"For {_kind(query)} `query`, expected `attn_mask` to be `None`, 2-D or 3-D "
            f"but found {dims}-D tensor instead"
        )
    if mask.shape == shape[-dims:]:
        return
    if dims == 3 and query.dim() == 2:
        raise AssertionError(f"Expected `attn_mask` shape to be {shape} but got {mask.shape}")
    raise RuntimeError(
        f"The shape of the {dims}D attn_mask is {mask.shape}, but should be {shape[-dims:]}."
    )


def check_causal_hint(is_causal: bool, attn_mask: Tensor | None) -> None:
    """The hint says what kind of mask is given, and so needs one."""
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )


def _check_type(mask: Tensor, query: Tensor, name: str) -> None:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if mask.dtype in (torch.bool, torch.float32, query.dtype):
        return
    if not torch.is_autocast_enabled(query.device.type):  # which would make them alike
        raise RuntimeError(
            f"Expected {name} dtype to be bool or float or to match query dtype, "
            f"but got {mask.dtype} and {query.dtype} instead."
        )


def _kind(query: Tensor) -> str:
    return "batched (3-D)" if query.dim() == 3 else "unbatched (2-D)"

"""A drop-in for `torch.nn.MultiheadAttention`, on `attend`: the same weights, the same results.

It inherits the weights and their initialization, so a state dict moves either way; arguments, masks
and errors are PyTorch's. Here alone True in a mask means "ignored", as it does there.
"""

from __future__ import annotations

from functools import reduce
from operator import add, and_

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import attend, attend_with_weights


class MultiheadAttention(nn.MultiheadAttention):
    """Concat(head_1 .. head_h) Wo, with head_i = attend(Q Wq_i, K Wk_i, V Wv_i).

    What differs from `torch.nn.MultiheadAttention`:

    - A query that may look nowhere gathers zeros, and its gradients are finite, always; there it
      depends on `need_weights`.
    - A padded key counts for nothing whatever it holds, NaN and infinity too. (A padded query does
      not: its row of the output is what it makes of it.)
    - `is_causal` is a hint and nothing else: the mask that comes with it is what counts.

    `nn.TransformerEncoderLayer` in evaluation reads the weights of its `self_attn` and does not
    call it: there PyTorch computes, unless `torch.backends.mha.set_fastpath_enabled(False)`.
    `torch.compile`, `torch.export` and `torch.jit.trace` take this class; `torch.jit.script` does
    not: load its state dict into PyTorch's for that.
    """

    def extra_repr(self) -> str:
        """The sizes, for people who print a model."""
        text = f"{self.embed_dim}, {self.num_heads}, dropout={self.dropout}"
        if not self._qkv_same_embed_dim:
            text += f", kdim={self.kdim}, vdim={self.vdim}"
        return text + f", batch_first={self.batch_first}"

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What the queries gather, and by which weights: their mean over the heads, or each head's.

        query (T, B, D), key (S, B, kdim), value (S, B, vdim) -> (T, B, D), (B, T, S) or
        (B, H, T, S); with `batch_first` the inputs and the output have B first; unbatched, B is
        missing everywhere. key_padding_mask (B, S), attn_mask (T, S) or (B*H, T, S): True is
        ignored, a float is added to the score. The weights are those after dropout.
        """
        if query.is_nested or key.is_nested or value.is_nested:
            self._check_nested(query, key, value, key_padding_mask, attn_mask)
            return self._forward_nested(query, need_weights, average_attn_weights)
        _check_causal_hint(is_causal, attn_mask)
        self._check(query, key, value, key_padding_mask, attn_mask)
        time = self._time_axis(query)
        mask, bias = self._mask_and_bias(query, attn_mask, key_padding_mask)
        if key_padding_mask is not None:
            hidden = ~_may_look(key_padding_mask).movedim(-1, time).unsqueeze(-1)
            # Here, not in `attend`: a weight's gradient is a sum over all tokens, hidden ones too.
            key, value = key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0)
        queries, keys, values = (
            x.unflatten(-1, (self.num_heads, self.head_dim)).movedim(time, -2)  # (B, H, T, d)
            for x in self._project(query, key, value)
        )
        keys, values = self._extended(keys, self.bias_k), self._extended(values, self.bias_v)
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            found, weights = attend_with_weights(
                queries, keys, values, mask=mask, bias=bias, dropout=dropout
            )
            weights = weights.mean(-3) if average_attn_weights else weights
        else:
            found = attend(queries, keys, values, mask=mask, bias=bias, dropout=dropout)
        return self.out_proj(found.movedim(-2, time).flatten(-2)), weights

    def _time_axis(self, query: Tensor) -> int:
        return 1 if self.batch_first and query.dim() == 3 else 0

    def _check(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
    ) -> None:
        _check_dims(query, key, value)
        time = self._time_axis(query)
        if self._qkv_same_embed_dim:
            _check_values(key, value)
        else:
            _check_values_apart(key, value, self.kdim, self.vdim, self.embed_dim)
        _check_queries(query, key, self.embed_dim, rows_at=1 - time)
        rows = query.shape[1 - time] if query.dim() == 3 else 1
        if key_padding_mask is not None:
            _check_padding_mask(key_padding_mask, query, rows, key.shape[time])
        if attn_mask is not None:
            shape = (rows * self.num_heads, query.shape[time], key.shape[time])
            _check_attention_mask(attn_mask, query, shape)

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads side by side, (..., D) each."""
        together, bias = self.in_proj_weight, self.in_proj_bias
        if not self._qkv_same_embed_dim:
            weights: tuple[Tensor, ...] = (
                self.q_proj_weight,
                self.k_proj_weight,
                self.v_proj_weight,
            )
        elif query is key and key is value:
            return list(_linear(query, together, bias).chunk(3, -1))
        else:
            weights = together.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return list(map(_linear, (query, key, value), weights, biases))

    def _extended(self, x: Tensor, learned: Tensor | None) -> Tensor:
        """Keys or values (B, H, S, d), with a learned one and one of zeros if they were wanted."""
        if learned is not None:
            one = learned.view(self.num_heads, 1, self.head_dim).expand(*x.shape[:-2], 1, -1)
            x = torch.cat([x, one], -2)
        return F.pad(x, (0, 0, 0, 1)) if self.add_zero_attn else x

    def _mask_and_bias(
        self, query: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """PyTorch's masks as ours: True = may look, and what is added to the scores. (B, H, T, S)

        They are None where nothing was given, and broadcast to that shape otherwise.
        """
        given = []
        if attn_mask is not None:
            by_head = attn_mask.dim() == 3 and query.dim() == 3
            given.append(attn_mask.unflatten(0, (-1, self.num_heads)) if by_head else attn_mask)
        if key_padding_mask is not None:
            given.append(key_padding_mask[..., None, None, :])
        extra = (self.bias_k is not None) + self.add_zero_attn
        if extra:  # which nobody ignores
            given = [F.pad(mask, (0, extra)) for mask in given]
        masks = [_may_look(mask) for mask in given]
        biases = [mask for mask in given if mask.is_floating_point()]
        return reduce(and_, masks) if masks else None, reduce(add, biases) if biases else None

    def _check_nested(
        self, query: Tensor, key: Tensor, value: Tensor, *masks: Tensor | None
    ) -> None:
        obstacles = {
            "input not batched": query.dim() != 3,
            "the layout is not strided": query.layout != torch.strided,
            "query, key and value are not the same Tensor": not (query is key and key is value),
            "masks are not supported with NestedTensor input": any(m is not None for m in masks),
            "training is enabled": self.training,
            "batch_first was not True": not self.batch_first,
            "grad is enabled and at least one of query or the input/output projection weights "
            "or biases requires_grad": torch.is_grad_enabled()
            and any(x.requires_grad for x in (query, *self.parameters())),
        }
        for obstacle, stands in obstacles.items():
            if stands:
                raise AssertionError(
                    "MultiheadAttention does not support NestedTensor outside of its fast path. "
                    f"The fast path was not hit because {obstacle}"
                )

    def _forward_nested(
        self, x: Tensor, need_weights: bool, average: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Sentences of unequal length in one tensor, padded for the length of the call.

        X nested (B, T, D) -> the same, and weights (B, T, T) or (B, H, T, T) with zeros as padding
        """
        lengths = [len(sentence) for sentence in x.unbind()]
        padded = x.to_padded_tensor(0.0)
        places = torch.arange(padded.shape[1], device=x.device)
        hidden = places >= torch.tensor(lengths, device=x.device)[:, None]
        found, weights = self.forward(
            padded,
            padded,
            padded,
            key_padding_mask=hidden,
            need_weights=need_weights,
            average_attn_weights=average,
        )
        if weights is not None:
            weights = weights.masked_fill(
                hidden[:, :, None] if average else hidden[:, None, :, None], 0.0
            )
        rows = [row[:length] for row, length in zip(found, lengths, strict=True)]
        return torch.nested.as_nested_tensor(rows), weights


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A projection; PyTorch's tests give it a bias of another type than the weight."""
    return F.linear(x, weight, None if bias is None else bias.to(weight.dtype))


def _may_look(mask: Tensor) -> Tensor:
    """PyTorch's mask as ours: False where it says True, or minus infinity."""
    return mask != -torch.inf if mask.is_floating_point() else ~mask


# What PyTorch refuses, with its types of error and nearly in its words.


def _check_dims(query: Tensor, key: Tensor, value: Tensor) -> None:
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


def _check_queries(query: Tensor, key: Tensor, embed_dim: int, rows_at: int) -> None:
    """Queries have the promised width, and as many rows as keys; `rows_at` is the rows' axis."""
    if query.shape[-1] != embed_dim:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim}, but got {query.shape[-1]}"
        )
    if query.dim() == 3 and query.shape[rows_at] != key.shape[rows_at]:
        raise RuntimeError(
            f"query has a batch of {query.shape[rows_at]}, but key has one of {key.shape[rows_at]}"
        )


def _check_values(key: Tensor, value: Tensor) -> None:
    """One value for each key, as wide as it."""
    if key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _check_values_apart(key: Tensor, value: Tensor, kdim: int, vdim: int, embed_dim: int) -> None:
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


def _check_padding_mask(mask: Tensor, query: Tensor, rows: int, keys: int) -> None:
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


def _check_attention_mask(mask: Tensor, query: Tensor, shape: tuple[int, int, int]) -> None:
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


def _check_causal_hint(is_causal: bool, attn_mask: Tensor | None) -> None:
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

"""A drop-in replacement of `torch.nn.MultiheadAttention`, based on `attend`.

It inherits the weights and their initialization, so that state dicts are interchangeable;
arguments, masks and errors are PyTorch's. As in PyTorch, and unlike elsewhere in this package, True
in a mask means "ignored".
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

    Differences from `torch.nn.MultiheadAttention`:

    - The output of a fully masked query is zero before the output projection, and its gradients are
      finite. In PyTorch, both depend on `need_weights`.
    - A padded key has no effect, even if it is NaN or infinite. (A padded query does affect its
      own row of the output.)
    - `is_causal` is a hint without effect: the mask that comes with it is applied.

    Nested tensors and invalid inputs are passed to PyTorch's implementation.

    In evaluation mode, `nn.TransformerEncoderLayer` reads the weights of `self_attn` instead of
    calling it, so that PyTorch's fast path is used unless it is disabled by
    `torch.backends.mha.set_fastpath_enabled(False)`. `torch.compile`, `torch.export` and
    `torch.jit.trace` support this class; `torch.jit.script` does not: load the state dict into
    PyTorch's class for that.
    """

    def extra_repr(self) -> str:
        """The sizes, for `repr`."""
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
        """The output, and the attention weights: their mean over the heads, or those of each head.

        query (T, B, D), key (S, B, kdim), value (S, B, vdim) -> (T, B, D), (B, T, S) or
        (B, H, T, S); with `batch_first` the inputs and the output have B first; unbatched, B is
        missing everywhere. key_padding_mask (B, S), attn_mask (T, S) or (B*H, T, S): True is
        ignored, a float is added to the score. The weights are those after dropout.
        """
        masks = key_padding_mask, attn_mask
        if not self._is_supported(query, key, value, *masks) or (is_causal and attn_mask is None):
            # Nested tensors, or invalid inputs, for which PyTorch raises an error.
            return super().forward(
                *(query, key, value, key_padding_mask, need_weights),
                *(attn_mask, average_attn_weights, is_causal),
            )
        time = self._time_axis(query)
        mask, bias = self._mask_and_bias(query, attn_mask, key_padding_mask)
        if key_padding_mask is not None:
            padding = ~_is_visible(key_padding_mask).movedim(-1, time).unsqueeze(-1)
            # Before the projection: gradients of its weights are sums over all tokens, padded too.
            key, value = key.masked_fill(padding, 0.0), value.masked_fill(padding, 0.0)
        queries, keys, values = (
            x.unflatten(-1, (self.num_heads, self.head_dim)).movedim(time, -2)  # (B, H, T, d)
            for x in self._project(query, key, value)
        )
        keys, values = (
            self._append_bias_kv(keys, self.bias_k),
            self._append_bias_kv(values, self.bias_v),
        )
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            output, weights = attend_with_weights(
                queries, keys, values, mask=mask, bias=bias, dropout=dropout
            )
            weights = weights.mean(-3) if average_attn_weights else weights
        else:
            output = attend(queries, keys, values, mask=mask, bias=bias, dropout=dropout)
        return self.out_proj(output.movedim(-2, time).flatten(-2)), weights

    def _time_axis(self, query: Tensor) -> int:
        return 1 if self.batch_first and query.dim() == 3 else 0

    def _is_supported(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
    ) -> bool:
        """Whether the tensors have the dimensions, sizes and types that `forward` supports."""
        tensors, masks = (query, key, value), (key_padding_mask, attn_mask)
        if any(x.is_nested or x.dim() not in (2, 3) or x.dim() != query.dim() for x in tensors):
            return False
        time, rows = self._time_axis(query), 1 if query.dim() == 2 else query.shape[-2]
        rows = query.shape[0] if time == 1 else rows
        shape = list(query.shape[:-1])  # of keys and values, without their last dimension
        shape[time] = key.shape[time]
        widths = (key.shape[-1],) * 2 if self._qkv_same_embed_dim else (self.kdim, self.vdim)
        padded = [*([rows] if query.dim() == 3 else []), shape[time]]
        by_head = [rows * self.num_heads, query.shape[time], shape[time]]
        return (
            query.shape[-1] == self.embed_dim
            and [*key.shape] == [*shape, widths[0]]
            and [*value.shape] == [*shape, widths[1]]
            and (key_padding_mask is None or [*key_padding_mask.shape] == padded)
            and (attn_mask is None or [*attn_mask.shape] in (by_head, by_head[1:]))
            and all(_is_supported_dtype(mask, query) for mask in masks if mask is not None)
        )

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads, concatenated. (..., D) each"""
        packed, bias = self.in_proj_weight, self.in_proj_bias
        if not self._qkv_same_embed_dim:
            weights: tuple[Tensor, ...] = (
                self.q_proj_weight,
                self.k_proj_weight,
                self.v_proj_weight,
            )
        elif query is key and key is value:
            return list(_linear(query, packed, bias).chunk(3, -1))
        else:
            weights = packed.chunk(3)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return list(map(_linear, (query, key, value), weights, biases))

    def _append_bias_kv(self, x: Tensor, learned: Tensor | None) -> Tensor:
        """Keys or values (B, H, S, d), with the extra ones of add_bias_kv and add_zero_attn."""
        if learned is not None:
            extra = learned.view(self.num_heads, 1, self.head_dim).expand(*x.shape[:-2], 1, -1)
            x = torch.cat([x, extra], -2)
        return F.pad(x, (0, 0, 0, 1)) if self.add_zero_attn else x

    def _mask_and_bias(
        self, query: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """PyTorch's masks as a mask of this package (True = visible) and a bias of the scores.

        Both are None or broadcast to (B, H, T, S).
        """
        torch_masks = []
        if attn_mask is not None:
            by_head = attn_mask.dim() == 3 and query.dim() == 3
            attn_mask = attn_mask.unflatten(0, (-1, self.num_heads)) if by_head else attn_mask
            torch_masks.append(attn_mask)
        if key_padding_mask is not None:
            torch_masks.append(key_padding_mask[..., None, None, :])
        extra = (self.bias_k is not None) + self.add_zero_attn
        if extra:  # keys that are always visible
            torch_masks = [F.pad(mask, (0, extra)) for mask in torch_masks]
        masks = [_is_visible(mask) for mask in torch_masks]
        biases = [mask for mask in torch_masks if mask.is_floating_point()]
        return reduce(and_, masks) if masks else None, reduce(add, biases) if biases else None


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """A linear projection; the bias may have another dtype, as in PyTorch's tests."""
    return F.linear(x, weight, None if bias is None else bias.to(weight.dtype))


def _is_visible(mask: Tensor) -> Tensor:
    """PyTorch's mask inverted: False where it is True or minus infinity."""
    return mask != -torch.inf if mask.is_floating_point() else ~mask


def _is_supported_dtype(mask: Tensor, query: Tensor) -> bool:
    """Whether PyTorch accepts a mask of this dtype; under autocast any float is accepted."""
    if mask.dtype in (torch.bool, torch.float32, query.dtype):
        return True
    return mask.is_floating_point() and torch.is_autocast_enabled(query.device.type)

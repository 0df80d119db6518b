"""Multi-head attention: `head_i = attend(Q Wq_i, K Wk_i, V Wv_i)`, combined by `Wo`.

In training, `forward` works on a flat batch; in decoding, `step` works on one new token per beam,
with the same weights. The modules are stateless: caches are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import (
    attend,
    attend_ragged,
    attend_with_weights,
    attention_weights,
    ragged_mask,
)
from regard.attention.cache import CacheView, KVCache, SourceMask
from regard.attention.config import AttentionShape
from regard.attention.linear import Linear
from regard.attention.positions import rotate
from regard.attention.scores import Score, scaled_dot
from regard.attention.select import Select
from regard.data.ragged import Lengths
from regard.devices import has_triton


@dataclass(frozen=True)
class AttentionRecorder:
    """Collects the attention maps of a forward pass: for each layer a tensor (B, H, T, S).

    For sampled selections it also collects their log-probabilities, (B, H, T) for each layer.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)
    selection_log_probs: list[Tensor] = field(default_factory=list)
    with_weights: bool = True

    def for_decoder(self) -> AttentionRecorder:
        """A recorder of non-causal self-attention in a decoder: maps are added to `decoder`."""
        return replace(self, encoder=self.decoder)


class Attention(nn.Module):
    """Base class of attention modules; `parts`: the output features of each linear layer."""

    score: Score

    def __init__(self, shape: AttentionShape, **parts: dict[str, int]) -> None:
        super().__init__()
        self.shape = shape
        self.parts = parts

    def _attend(
        self,
        qkv: Sequence[Tensor],
        queries: Lengths,
        keys: Lengths,
        recorder: AttentionRecorder | None = None,
        maps: list[Tensor] | None = None,
        **mask: Any,
    ) -> Tensor:
        """Attend within each sentence; a recorder's weights are appended to `maps`.

        qkv: query (N, H, d), key (M, H, d) and value (M, H, e) -> (N, H e)
        """
        query, key, value = qkv
        select = self._select(recorder)
        if recorder is not None and recorder.with_weights and maps is not None:
            with torch.no_grad():
                padded = queries.pad(query).transpose(1, 2), keys.pad(key).transpose(1, 2)
                visible = ragged_mask(queries, keys, **mask)
                weights = attention_weights(*padded, mask=visible, score=self.score, select=select)
            maps.append(weights)
        options = {"score": self.score, "select": select, "dropout": self._dropout, **mask}
        y = attend_ragged(query, key, value, queries, keys, **options)
        return y.flatten(-2)

    @property
    def _dropout(self) -> float:
        return self.shape.dropout if self.training else 0.0

    def _select(self, recorder: AttentionRecorder | None = None) -> Select:
        log_probs = recorder.selection_log_probs if recorder else None
        return self.shape.make_select(training=self.training, log_probs=log_probs)

    def _step_kernel(self, query: Tensor, values: Tensor) -> ModuleType | None:
        """The Triton kernel of a decoding step, where it supports these settings and sizes."""
        if not query.is_cuda or not has_triton():
            return None
        if self.score is not scaled_dot or self.shape.config.select != "soft":
            return None
        from regard.attention import step_kernel

        return step_kernel if step_kernel.is_supported(query, values) else None


class SelfAttention(Attention):
    """Self-attention within each sentence; `mask_diagonal`: no token attends to itself."""

    def __init__(self, shape: AttentionShape, *, mask_diagonal: bool = False) -> None:
        keys = shape.num_heads * shape.head_dim
        parts = {"query": keys, "key": keys, "value": shape.d_model}  # one packed projection
        super().__init__(shape, project=parts, combine={"output": shape.d_model})
        self.mask_diagonal = mask_diagonal
        self.sizes = [*parts.values()]
        self.project = Linear(shape.d_model, sum(self.sizes), bias=shape.bias)
        self.combine = Linear(shape.d_model, shape.d_model, bias=shape.bias)
        self.score = shape.make_self_attention_score()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        *,
        causal: bool,
        prefix: Tensor | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D); if causal, the first `prefix` (B,) tokens are visible to all"""
        maps = None if recorder is None else recorder.decoder if causal else recorder.encoder
        mask = {"causal": causal, "prefix": prefix, "mask_diagonal": self.mask_diagonal}
        qkv = self.project_qkv(x, lengths.positions)
        return self.combine(self._attend(qkv, lengths, lengths, recorder, maps, **mask))

    def keys_values_with_memory(
        self, x: Tensor, lengths: Lengths, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory (B, M, D) followed by a segment x (N, D).

        (B, H, M + T, d), (B, H, M + T, e)
        """
        whole = torch.cat([memory, lengths.pad(x)], 1)
        queries = self.sizes[0]
        bias = None if self.project.bias is None else self.project.bias[queries:]
        product = F.linear(whole, self.project.weight[queries:], bias)
        keys, values = _split_heads(product, self.sizes[1:], self.shape.num_heads)
        return keys.transpose(1, 2), values.transpose(1, 2)

    def attend_with_memory(
        self,
        x: Tensor,
        lengths: Lengths,
        keys_values: tuple[Tensor, Tensor],
        mask: Tensor,
        *,
        make_bias: Callable[[Tensor], Tensor] | None = None,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """Attend to a memory and the segment, given by `keys_values_with_memory`.

        x (N, D), mask (B, 1, T, M + T) -> (N, D); `make_bias`: queries to a bias of the scores
        """
        bias = None if self.project.bias is None else self.project.bias[: self.sizes[0]]
        query = F.linear(x, self.project.weight[: self.sizes[0]], bias)
        query = lengths.pad(query.unflatten(-1, (self.shape.num_heads, -1))).transpose(1, 2)
        if not lengths.all_equal:
            mask = mask & lengths.mask[:, None, :, None]
        y, weights = attend_with_weights(
            query,
            *keys_values,
            mask=mask,
            bias=make_bias(query) if make_bias else None,
            score=self.score,
            select=self._select(recorder),
            dropout=self._dropout,
        )
        if recorder is not None and recorder.with_weights:
            recorder.decoder.append(weights.detach())
        return self.combine(lengths.unpad(y.transpose(1, 2)).flatten(-2))

    def new_cache(self, sentences: int, columns: int) -> KVCache:
        """An empty KV cache."""
        like = self.project.weight
        keys, _, values = (
            like.new_zeros(sentences, self.shape.num_heads, columns, size // self.shape.num_heads)
            for size in self.sizes
        )
        return KVCache(keys, values)

    def step(self, x: Tensor, past: KVCache, view: CacheView) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D); its keys and values are cached."""
        history = view.history
        query, key, value = self.project_qkv(x, history.position)  # (B, W, H, d)
        if kernel := self._step_kernel(query, past.values):
            pointers = history.beams, history.position
            y = kernel.self_attention_step(query, key, value, past.keys, past.values, *pointers)
            return self.combine(y.flatten(-2))
        past.write(view.written_columns, key, value)
        keys, values = past.first(view.num_columns)
        if self.shape.positions == "relative":
            y = self._relative_step(query, keys, values, view.back_pointers)
        else:
            bias, select = view.bias(x.dtype), self._select()
            query = query.transpose(1, 2)
            y = attend(query, keys, values, bias=bias, score=self.score, select=select)
            y = y.transpose(1, 2)
        return self.combine(y.flatten(-2))

    def forward_with_cache(
        self, x: Tensor, lengths: Lengths, *, causal: bool
    ) -> tuple[Tensor, KVCache]:
        """`forward`, and the keys and values for later tokens: (N, D), (B, H, S, d)."""
        qkv = self.project_qkv(x, lengths.positions)
        padded = (lengths.pad(part).transpose(1, 2) for part in qkv[1:])
        y = self._attend(qkv, lengths, lengths, causal=causal)
        return self.combine(y), KVCache(*padded)

    def step_with_source(
        self,
        x: Tensor,
        source: KVCache,
        source_mask: SourceMask,
        past: KVCache,
        view: CacheView,
        positions: Tensor,
    ) -> Tensor:
        """`step` of tokens at positions (B, W) that also attend to a cached source."""
        flat = self.project_qkv(x.flatten(0, 1), positions.flatten())
        query, key, value = (part.unflatten(0, x.shape[:2]) for part in flat)  # (B, W, H, d)
        past.write(view.written_columns, key, value)
        keys, values = past.first(view.num_columns)
        keys = torch.cat([source.keys, keys], 2)
        values = torch.cat([source.values, values], 2)
        target_bias = view.bias(x.dtype)
        if target_bias is None:
            target_bias = x.new_zeros(len(x), 1, x.shape[1], view.num_columns)
        bias = torch.cat([source_mask.bias.expand(-1, 1, x.shape[1], -1), target_bias], -1)
        select = self._select()
        y = attend(query.transpose(1, 2), keys, values, bias=bias, score=self.score, select=select)
        return self.combine(y.transpose(1, 2).flatten(-2))

    def _relative_step(
        self, query: Tensor, keys: Tensor, values: Tensor, back_pointers: Tensor
    ) -> Tensor:
        """A step with relative positions: gather each beam's keys and values by position."""
        sentences, beams, length = back_pointers.shape
        columns = torch.arange(length, device=keys.device) * beams + back_pointers
        rows = torch.arange(sentences, device=keys.device)[:, None, None]
        gathered = (part.transpose(1, 2)[rows, columns].transpose(2, 3) for part in (keys, values))
        y = attend(query.unsqueeze(3), *gathered, score=self.score, select=self._select())
        return y.squeeze(3)  # (B, W, H, e)

    def project_qkv(self, x: Tensor, positions: Tensor) -> list[Tensor]:
        """Queries, keys and values, rotated by rotary positions. (..., H, d) each"""
        query, key, value = _split_heads(self.project(x), self.sizes, self.shape.num_heads)
        if self.shape.positions == "rotary":
            query, key = rotate(query, positions), rotate(key, positions)
        return [query, key, value]


class PositionalAttention(Attention):
    """Positional attention (Gu et al., 2018, arXiv:1711.02281), within each sentence.

    Queries and keys are projections of positional encodings, values are projections of tokens, so
    that reordering is learned independently of the content.
    """

    def __init__(self, shape: AttentionShape) -> None:
        keys, output = shape.num_heads * shape.head_dim, {"output": shape.d_model}
        parts = {"query": keys, "key": keys}  # one packed projection
        super().__init__(shape, places=parts, value={"value": shape.d_model}, combine=output)
        self.sizes = [*parts.values()]
        self.places = Linear(shape.d_model, sum(self.sizes))
        self.value = Linear(shape.d_model, shape.d_model)
        self.combine = Linear(shape.d_model, shape.d_model)
        self.score = shape.make_score()

    def forward(self, x: Tensor, positions: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D), positions (N, D) -> (N, D)"""
        query, key = _split_heads(self.places(positions), self.sizes, self.shape.num_heads)
        (value,) = _split_heads(self.value(x), [self.shape.d_model], self.shape.num_heads)
        return self.combine(self._attend((query, key, value), lengths, lengths))


class UnprojectedCrossAttention(Attention):
    """Single-head cross-attention without projections: the encoder output is keys and values."""

    def __init__(self, shape: AttentionShape, **parts: dict[str, int]) -> None:
        super().__init__(shape, **parts)
        self.score = shape.make_score()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """X (N, D), encoder_output (M, D) -> (N, D)"""
        qkv = self.queries(x), *self.keys_values(encoder_output)
        maps = None if recorder is None else recorder.cross
        return self._combine(self._attend(qkv, lengths, source_lengths, recorder, maps))

    def new_cache(self, encoder_output: Tensor, lengths: Lengths) -> KVCache:
        """Keys and values of the encoder output for all steps; (M, D) -> (B, H, S, d)."""
        parts = (lengths.pad(part).transpose(1, 2) for part in self.keys_values(encoder_output))
        return KVCache(*(part.contiguous() for part in parts))

    def step(
        self,
        x: Tensor,
        source: KVCache,
        source_mask: SourceMask,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        query = self.queries(x)  # (B, W, H, d)
        kernel = self._step_kernel(query, source.values)
        if kernel and recorder is None and not self.training:
            keys_values = source.keys, source.values
            y = kernel.cross_attention_step(query, *keys_values, source_mask.lengths)
            return self._combine(y.flatten(-2))
        query, keys, values = query.transpose(1, 2), source.keys, source.values
        bias, select = source_mask.bias, self._select(recorder)
        if recorder is not None and recorder.with_weights:
            weights = attention_weights(query, keys, bias=bias, score=self.score, select=select)
            recorder.cross.append(weights)
        y = attend(
            query,
            keys,
            values,
            bias=bias,
            score=self.score,
            select=select,
            dropout=self._dropout,
        )
        return self._combine(y.transpose(1, 2).flatten(-2))

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., H, d)"""
        return x.unsqueeze(-2)

    def keys_values(self, encoder_output: Tensor) -> list[Tensor]:
        """(M, D) -> (M, H, d) twice"""
        return [encoder_output.unsqueeze(-2)] * 2

    def _combine(self, y: Tensor) -> Tensor:
        return y


class CrossAttention(UnprojectedCrossAttention):
    """Multi-head cross-attention with projections of queries, keys and values."""

    def __init__(self, shape: AttentionShape) -> None:
        keys, output = shape.num_heads * shape.head_dim, {"output": shape.d_model}
        parts = {"key": keys, "value": shape.d_model}  # one packed projection
        super().__init__(shape, query={"query": keys}, memory=parts, combine=output)
        self.sizes = [*parts.values()]
        self.query = Linear(shape.d_model, keys)
        self.memory = Linear(shape.d_model, sum(self.sizes))  # of the encoder output
        self.combine = Linear(shape.d_model, shape.d_model)

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., H, d)"""
        queries: Tensor = self.query(x)
        return queries.unflatten(-1, (self.shape.num_heads, -1))

    def keys_values(self, encoder_output: Tensor) -> list[Tensor]:
        """(M, D) -> (M, H, d) twice"""
        return _split_heads(self.memory(encoder_output), self.sizes, self.shape.num_heads)

    def _combine(self, y: Tensor) -> Tensor:
        return self.combine(y)


def _split_heads(product: Tensor, sizes: list[int], num_heads: int) -> list[Tensor]:
    """The parts of a packed projection, each with an axis of heads. (..., H, d) each"""
    return [part.unflatten(-1, (num_heads, -1)) for part in product.split(sizes, dim=-1)]

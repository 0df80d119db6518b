"""Several heads at once: `head_i = attend(Q Wq_i, K Wk_i, V Wv_i)`, joined by `Wo`.

All modules work on the flat batch in training (`forward`) and on one new token a row in decoding
(`step`), with the same weights. None keeps any state.
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
from regard.attention.cache import KeyValues, Sight, Sources
from regard.attention.config import AttentionShape
from regard.attention.linear import Linear
from regard.attention.positions import rotate
from regard.attention.scores import Score, scaled_dot
from regard.attention.select import Select
from regard.data.ragged import Lengths
from regard.devices import has_triton


@dataclass(frozen=True)
class AttentionRecord:
    """Hand one to a model's forward pass to see where it looks: a (B, H, T, S) for each layer.

    Of drawn selections it also notes how likely each was: `choices`, (B, H, T) for each layer.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)
    choices: list[Tensor] = field(default_factory=list)
    with_weights: bool = True

    def of_decoder(self) -> AttentionRecord:
        """For attention that looks both ways in a decoder: the same, noted as the decoder's."""
        return replace(self, encoder=self.decoder)


class Attention(nn.Module):
    """What all attention modules share; `parts` are the features that each linear layer makes."""

    score: Score

    def __init__(self, shape: AttentionShape, **parts: dict[str, int]) -> None:
        super().__init__()
        self.shape = shape
        self.parts = parts

    def _attend(
        self,
        parts: Sequence[Tensor],
        queries: Lengths,
        keys: Lengths,
        record: AttentionRecord | None = None,
        maps: list[Tensor] | None = None,
        **mask: Any,
    ) -> Tensor:
        """Attend within each sentence; `maps` gets the weights, if they are recorded.

        parts: query (N, H, d), key (M, H, d) and value (M, H, e) -> (N, H e)
        """
        query, key, value = parts
        select = self._select(record)
        if record is not None and record.with_weights and maps is not None:
            with torch.no_grad():
                padded = queries.pad(query).transpose(1, 2), keys.pad(key).transpose(1, 2)
                sight = ragged_mask(queries, keys, **mask)
                weights = attention_weights(*padded, mask=sight, score=self.score, select=select)
            maps.append(weights)
        options = {"score": self.score, "select": select, "dropout": self._dropout, **mask}
        y = attend_ragged(query, key, value, queries, keys, **options)
        return y.flatten(-2)

    @property
    def _dropout(self) -> float:
        return self.shape.dropout if self.training else 0.0

    def _select(self, record: AttentionRecord | None = None) -> Select:
        choices = record.choices if record else None
        return self.shape.select(training=self.training, choices=choices)

    def _step_kernel(self, query: Tensor, values: Tensor) -> ModuleType | None:
        """A GPU's own way to compute a step, where it computes the same."""
        if not query.is_cuda or not has_triton():
            return None
        if self.score is not scaled_dot or self.shape.config.select != "soft":
            return None
        from regard.attention import step_kernel

        return step_kernel if step_kernel.fits(query, values) else None


class SelfAttention(Attention):
    """Each token looks at the tokens of its own sentence, with `mask_diagonal` not at itself."""

    def __init__(self, shape: AttentionShape, *, mask_diagonal: bool = False) -> None:
        keys = shape.heads * shape.head_width
        made = {"query": keys, "key": keys, "value": shape.width}  # in one product
        super().__init__(shape, project=made, combine={"output": shape.width})
        self.mask_diagonal = mask_diagonal
        self.sizes = [*made.values()]
        self.project = Linear(shape.width, sum(self.sizes), bias=shape.bias)
        self.combine = Linear(shape.width, shape.width, bias=shape.bias)
        self.score = shape.score_within()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        *,
        causal: bool,
        prefix: Tensor | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D) -> (N, D); of a causal one, `prefix` (B,) says how many tokens all see"""
        maps = None if record is None else record.decoder if causal else record.encoder
        mask = {"causal": causal, "prefix": prefix, "mask_diagonal": self.mask_diagonal}
        parts = self.projected(x, lengths.positions)
        return self.combine(self._attend(parts, lengths, lengths, record, maps, **mask))

    def recalled(self, x: Tensor, lengths: Lengths, before: Tensor) -> KeyValues:
        """Keys and values of a memory and of what follows it, in one row for each sentence.

        x (N, D), before (B, M, D) -> (B, H, M + T, d)
        """
        whole = torch.cat([before, lengths.pad(x)], 1)
        queries = self.sizes[0]
        bias = None if self.project.bias is None else self.project.bias[queries:]
        product = F.linear(whole, self.project.weight[queries:], bias)
        keys, values = _heads(product, self.sizes[1:], self.shape.heads)
        return KeyValues(keys.transpose(1, 2), values.transpose(1, 2))

    def ask(
        self,
        x: Tensor,
        lengths: Lengths,
        recalled: KeyValues,
        mask: Tensor,
        *,
        extra: Callable[[Tensor], Tensor] | None = None,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """What tokens gather where a memory stands before each sentence.

        x (N, D), mask (B, 1, T, M + T) -> (N, D); `extra` makes a bias of scores out of queries.
        """
        bias = None if self.project.bias is None else self.project.bias[: self.sizes[0]]
        query = F.linear(x, self.project.weight[: self.sizes[0]], bias)
        query = lengths.pad(query.unflatten(-1, (self.shape.heads, -1))).transpose(1, 2)
        if not lengths.are_equal:
            mask = mask & lengths.mask[:, None, :, None]
        y, weights = attend_with_weights(
            query,
            recalled.keys,
            recalled.values,
            mask=mask,
            bias=extra(query) if extra else None,
            score=self.score,
            select=self._select(record),
            dropout=self._dropout,
        )
        if record is not None and record.with_weights:
            record.decoder.append(weights.detach())
        return self.combine(lengths.unpad(y.transpose(1, 2)).flatten(-2))

    def room(self, sentences: int, columns: int) -> KeyValues:
        """An empty past."""
        like = self.project.weight
        keys, _, values = (
            like.new_zeros(sentences, self.shape.heads, columns, size // self.shape.heads)
            for size in self.sizes
        )
        return KeyValues(keys, values)

    def step(self, x: Tensor, past: KeyValues, sight: Sight) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D); the past gets its columns."""
        query, key, value = self.projected(x, sight.trail.place)  # (B, W, H, d)
        if kernel := self._step_kernel(query, past.values):
            trails = sight.trail.beams, sight.trail.place
            y = kernel.attention_along(query, key, value, past.keys, past.values, *trails)
            return self.combine(y.flatten(-2))
        past.write(sight.writes, key, value)
        keys, values = past.first(sight.columns)
        if self.shape.positions == "relative":
            y = self._along(query, keys, values, sight.came)
        else:
            bias, select = sight.bias(x.dtype), self._select()
            query = query.transpose(1, 2)
            y = attend(query, keys, values, bias=bias, score=self.score, select=select)
            y = y.transpose(1, 2)
        return self.combine(y.flatten(-2))

    def remember(self, x: Tensor, lengths: Lengths, *, causal: bool) -> tuple[Tensor, KeyValues]:
        """`forward`, and keys and values for those who come after: (N, D), (B, H, S, d)."""
        parts = self.projected(x, lengths.positions)
        padded = (lengths.pad(part).transpose(1, 2) for part in parts[1:])
        y = self._attend(parts, lengths, lengths, causal=causal)
        return self.combine(y), KeyValues(*padded)

    def step_after(
        self,
        x: Tensor,
        memory: KeyValues,
        sources: Sources,
        past: KeyValues,
        sight: Sight,
        places: Tensor,
    ) -> Tensor:
        """`step` of tokens at some places (B, W) that also see what was remembered."""
        rows = self.projected(x.flatten(0, 1), places.flatten())
        query, key, value = (part.unflatten(0, x.shape[:2]) for part in rows)  # (B, W, H, d)
        past.write(sight.writes, key, value)
        keys, values = past.first(sight.columns)
        keys = torch.cat([memory.keys, keys], 2)
        values = torch.cat([memory.values, values], 2)
        own = sight.bias(x.dtype)
        if own is None:
            own = x.new_zeros(len(x), 1, x.shape[1], sight.columns)
        bias = torch.cat([sources.bias.expand(-1, 1, x.shape[1], -1), own], -1)
        select = self._select()
        y = attend(query.transpose(1, 2), keys, values, bias=bias, score=self.score, select=select)
        return self.combine(y.transpose(1, 2).flatten(-2))

    def _along(self, query: Tensor, keys: Tensor, values: Tensor, came: Tensor) -> Tensor:
        """For a score that counts distances: each beam has its own past, place by place."""
        sentences, beams, places = came.shape
        columns = torch.arange(places, device=came.device) * beams + came
        sentence = torch.arange(sentences, device=came.device)[:, None, None]
        own = (part.transpose(1, 2)[sentence, columns].transpose(2, 3) for part in (keys, values))
        y = attend(query.unsqueeze(3), *own, score=self.score, select=self._select())
        return y.squeeze(3)  # (B, W, H, e)

    def projected(self, x: Tensor, places: Tensor) -> list[Tensor]:
        """Queries, keys and values, turned by their places if these are rotary. (..., H, d) each"""
        query, key, value = _heads(self.project(x), self.sizes, self.shape.heads)
        if self.shape.positions == "rotary":
            query, key = rotate(query, places), rotate(key, places)
        return [query, key, value]


class PositionalAttention(Attention):
    """Each token looks at places of its own sentence, whatever stands there.

    Queries and keys are made of positions, and values alone of the tokens: where a word goes is
    learned apart from what it is (Gu et al., 2018, arXiv:1711.02281).
    """

    def __init__(self, shape: AttentionShape) -> None:
        keys, output = shape.heads * shape.head_width, {"output": shape.width}
        made = {"query": keys, "key": keys}  # in one product
        super().__init__(shape, places=made, value={"value": shape.width}, combine=output)
        self.sizes = [*made.values()]
        self.places = Linear(shape.width, sum(self.sizes))
        self.value = Linear(shape.width, shape.width)
        self.combine = Linear(shape.width, shape.width)
        self.score = shape.score()

    def forward(self, x: Tensor, positions: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D), positions (N, D) -> (N, D)"""
        query, key = _heads(self.places(positions), self.sizes, self.shape.heads)
        (value,) = _heads(self.value(x), [self.shape.width], self.shape.heads)
        return self.combine(self._attend((query, key, value), lengths, lengths))


class MemoryAttention(Attention):
    """Each token looks at the tokens of another sequence, the memory, as both are: `K = V`.

    Nothing is projected, and there is one head.
    """

    def __init__(self, shape: AttentionShape, **parts: dict[str, int]) -> None:
        super().__init__(shape, **parts)
        self.score = shape.score()

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        parts = self.queries(x), *self.keys_values(memory)
        maps = None if record is None else record.cross
        return self._combined(self._attend(parts, lengths, memory_lengths, record, maps))

    def prepare(self, memory: Tensor, lengths: Lengths) -> KeyValues:
        """Keys and values of the memory, once for all steps; (M, D) -> (B, H, S, d)."""
        parts = (lengths.pad(part).transpose(1, 2) for part in self.keys_values(memory))
        return KeyValues(*(part.contiguous() for part in parts))

    def step(
        self, x: Tensor, memory: KeyValues, sources: Sources, record: AttentionRecord | None = None
    ) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        query = self.queries(x)  # (B, W, H, d)
        kernel = self._step_kernel(query, memory.values)
        if kernel and record is None and not self.training:
            y = kernel.attention_to(query, memory.keys, memory.values, sources.lengths)
            return self._combined(y.flatten(-2))
        query, keys, values = query.transpose(1, 2), memory.keys, memory.values
        bias, select = sources.bias, self._select(record)
        if record is not None and record.with_weights:
            seen = attention_weights(query, keys, bias=bias, score=self.score, select=select)
            record.cross.append(seen)
        y = attend(
            query,
            keys,
            values,
            bias=bias,
            score=self.score,
            select=select,
            dropout=self._dropout,
        )
        return self._combined(y.transpose(1, 2).flatten(-2))

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., H, d)"""
        return x.unsqueeze(-2)

    def keys_values(self, memory: Tensor) -> list[Tensor]:
        """(M, D) -> (M, H, d) twice"""
        return [memory.unsqueeze(-2)] * 2

    def _combined(self, y: Tensor) -> Tensor:
        return y


class CrossAttention(MemoryAttention):
    """Attention to a memory by several heads, each with projections of its own."""

    def __init__(self, shape: AttentionShape) -> None:
        keys, output = shape.heads * shape.head_width, {"output": shape.width}
        made = {"key": keys, "value": shape.width}  # in one product
        super().__init__(shape, query={"query": keys}, memory=made, combine=output)
        self.sizes = [*made.values()]
        self.query = Linear(shape.width, keys)
        self.memory = Linear(shape.width, sum(self.sizes))
        self.combine = Linear(shape.width, shape.width)

    def queries(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., H, d)"""
        queries: Tensor = self.query(x)
        return queries.unflatten(-1, (self.shape.heads, -1))

    def keys_values(self, memory: Tensor) -> list[Tensor]:
        """(M, D) -> (M, H, d) twice"""
        return _heads(self.memory(memory), self.sizes, self.shape.heads)

    def _combined(self, y: Tensor) -> Tensor:
        return self.combine(y)


def _heads(product: Tensor, sizes: list[int], heads: int) -> list[Tensor]:
    """One product as its parts, each with an axis for its heads. (..., H, d) each"""
    return [part.unflatten(-1, (heads, -1)) for part in product.split(sizes, dim=-1)]

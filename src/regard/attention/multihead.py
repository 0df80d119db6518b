"""Several heads at once: `head_i = attend(Q Wq_i, K Wk_i, V Wv_i)`, joined by `Wo`.

Both modules work on the flat batch in training (`forward`) and on one new token a row in decoding
(`step`), with the same weights. Neither keeps any state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from regard.attention.attend import attend, attend_ragged, attention_weights, ragged_mask
from regard.attention.cache import KeyValues
from regard.data.ragged import Lengths


@dataclass(frozen=True)
class AttentionRecord:
    """Hand one to a model's forward pass to see where it looks: a (B, H, T, S) for each layer."""

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class SelfAttention(nn.Module):
    """Each token looks at the tokens of its own sentence."""

    def __init__(
        self, width: int, heads: int, dropout: float, key_width: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        keys = heads * key_width if key_width else width
        self.sizes = [keys, keys, width]  # queries, keys and values in one product
        self.project = nn.Linear(width, sum(self.sizes))
        self.combine = nn.Linear(width, width)

    def forward(
        self, x: Tensor, lengths: Lengths, *, causal: bool, record: list[Tensor] | None = None
    ) -> Tensor:
        """X (N, D) -> (N, D)"""
        query, key, value = _heads(self.project(x), self.sizes, self.heads)
        if record is not None:
            record.append(_weights(query, key, lengths, lengths, causal=causal))
        dropout = self.dropout if self.training else 0.0
        y = attend_ragged(query, key, value, lengths, lengths, causal=causal, dropout=dropout)
        return self._combined(y)

    def step(self, x: Tensor, past: KeyValues | None) -> tuple[Tensor, KeyValues]:
        """One new token a row: x (B, D), with what came before it -> (B, D) and the longer past."""
        parts = _heads(self.project(x), self.sizes, self.heads)
        query, key, value = (part.unsqueeze(2) for part in parts)  # (B, H, 1, d) each
        past = KeyValues(key, value) if past is None else past.extended(key, value)
        return self._combined(attend(query, past.keys, past.values).squeeze(2)), past

    def _combined(self, y: Tensor) -> Tensor:
        return self.combine(y.flatten(-2))


class CrossAttention(nn.Module):
    """Each token looks at the tokens of another sequence: the encoder's output, the memory."""

    def __init__(
        self, width: int, heads: int, dropout: float, key_width: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        keys = heads * key_width if key_width else width
        self.sizes = [keys, width]  # keys and values in one product
        self.query = nn.Linear(width, keys)
        self.memory = nn.Linear(width, sum(self.sizes))
        self.combine = nn.Linear(width, width)

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: list[Tensor] | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        query, (key, value) = self._queries(x), self._keys_values(memory)
        if record is not None:
            record.append(_weights(query, key, lengths, memory_lengths, causal=False))
        dropout = self.dropout if self.training else 0.0
        y = attend_ragged(query, key, value, lengths, memory_lengths, dropout=dropout)
        return self.combine(y.flatten(-2))

    def prepare(self, memory: Tensor, lengths: Lengths) -> KeyValues:
        """Keys and values of the memory, once for all steps; (M, D) -> (B, H, S, d)."""
        key, value = (lengths.pad(part).transpose(1, 2) for part in self._keys_values(memory))
        return KeyValues(key, value)

    def step(self, x: Tensor, memory: KeyValues, mask: Tensor | None) -> Tensor:
        """One new token a row: x (B, D), mask (B, 1, 1, S) -> (B, D)"""
        query = self._queries(x).unsqueeze(2)  # (B, H, 1, d)
        y = attend(query, memory.keys, memory.values, mask=mask, finite=True).squeeze(2)
        return self.combine(y.flatten(-2))

    def _queries(self, x: Tensor) -> Tensor:
        queries: Tensor = self.query(x)
        return queries.unflatten(-1, (self.heads, -1))  # (N, H, d)

    def _keys_values(self, memory: Tensor) -> list[Tensor]:
        return _heads(self.memory(memory), self.sizes, self.heads)


def _heads(product: Tensor, sizes: list[int], heads: int) -> list[Tensor]:
    """One product as its parts, each with an axis for its heads. (N, H, d) each"""
    return [part.unflatten(-1, (heads, -1)) for part in product.split(sizes, dim=-1)]


@torch.no_grad()
def _weights(
    query: Tensor, key: Tensor, queries: Lengths, keys: Lengths, *, causal: bool
) -> Tensor:
    """The weights of a flat batch for somebody to look at. (B, H, T, S)"""
    padded_query, padded_key = queries.pad(query).transpose(1, 2), keys.pad(key).transpose(1, 2)
    mask = ragged_mask(queries, keys, causal=causal)
    return attention_weights(padded_query, padded_key, mask=mask)

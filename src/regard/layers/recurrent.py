"""Recurrence: what a token becomes depends on what the token before it became.

    Elman   s_t = tanh(W x_t + U s_{t-1} + b)
    GRU     s_t = (1 - z) n + z s_{t-1}, where gates r and z say what n takes from s_{t-1}
    LSTM    c_t = f c_{t-1} + i g, s_t = o tanh(c_t), where gates f, i, o forget, write and show

It is PyTorch's own. A flat batch goes in as a PackedSequence, which is the same tokens in another
order, so here too nothing is padded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KeyValues, Sources
from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecord, MemoryAttention
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout

Cell = Literal["elman", "gru", "lstm"]
CELLS: dict[Cell, type[nn.RNN | nn.GRU | nn.LSTM]] = {
    "elman": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}
Past = tuple[Tensor, ...]  # (B, ...) each; what a layer remembers of a sentence


class Recurrence(nn.Module):
    """Layers of cells; `both_ways`: half of each reads forwards, half backwards.

    Its past is the state of all L layers, (B, L, D), and for an LSTM also what its cells hold.
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        width: int,
        layers: int,
        dropout: float,
        *,
        both_ways: bool = False,
    ) -> None:
        super().__init__()
        self.cells = CELLS[cell](
            inputs,
            width // 2 if both_ways else width,
            layers,
            dropout=dropout if layers > 1 else 0.0,
            bidirectional=both_ways,
        )

    def forward(self, x: Tensor, lengths: Lengths, past: Past | None = None) -> tuple[Tensor, Past]:
        """X (N, inputs) -> (N, D), and the past at the end of each sentence"""
        with _precise(x.device.type):
            packed = lengths.pack(self._as_weights(x))
            y, last = self.cells(packed, None if past is None else self._states(past))
            return lengths.unpack(y), self._past(last)

    def step(self, x: Tensor, past: Past) -> tuple[Tensor, Past]:
        """One new token for each: x (B, inputs) -> (B, D)"""
        with _precise(x.device.type):
            y, last = self.cells(self._as_weights(x).unsqueeze(0), self._states(past))
            return y.squeeze(0), self._past(last)

    def _as_weights(self, x: Tensor) -> Tensor:
        return x.to(next(self.cells.parameters()).dtype)

    def _states(self, past: Past) -> Tensor | Past:
        """As PyTorch wants them: (L, B, D), alone or in pairs."""
        states = tuple(self._as_weights(part).transpose(0, 1).contiguous() for part in past)
        return states if len(states) > 1 else states[0]

    def _past(self, states: Tensor | Past) -> Past:
        """(L, B, D) to (B, L, D); of two directions, (2 L, B, D / 2) to (B, L, D)."""
        parts = (states,) if isinstance(states, Tensor) else states
        layers = self.cells.num_layers
        return tuple(
            part.unflatten(0, (layers, -1)).permute(2, 0, 1, 3).flatten(2) for part in parts
        )


@contextmanager
def _precise(device: str) -> Iterator[None]:
    """In the precision of the weights: under autocast cuDNN would take float16.

    Of float32 it may leave out bits (TF32) where half precision was asked for, and only there.
    """
    half = torch.is_autocast_enabled(device)
    with (
        torch.autocast(device, enabled=False),
        torch.backends.cudnn.flags(enabled=torch.backends.cudnn.enabled, allow_tf32=half),
    ):
        yield


class RecurrentDecoder(nn.Module):
    """Cells that read what was written, and look at the source if they have attention.

        s_t = f(s_{t-1}, y_{t-1})
        h_t = tanh(W [att((K, V), s_t); s_t])           without attention: h_t = s_t

    With input feeding (Luong et al., 2015, arXiv:1508.04025), f also reads h_{t-1}: it knows where
    was looked before. Then a sentence can only be read step by step, also in training.
    """

    def __init__(
        self,
        cell: Cell,
        width: int,
        layers: int,
        dropout: float,
        attention: MemoryAttention | None,
        *,
        feeding: bool,
    ) -> None:
        super().__init__()
        self._fed = width if feeding else 0
        self.recurrence = Recurrence(cell, width + self._fed, width, layers, dropout)
        self.attention = attention
        self.combine = Linear(2 * width, width) if attention else None
        self.dropout = Dropout(dropout)

    def first(self, last: Past) -> Past:
        """The past before the first step, from the last of the encoder: h_0 is zero."""
        return *last, last[0].new_zeros(len(last[0]), self._fed)

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        encoded: tuple[Tensor, Past],
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), what was encoded: memory (M, D) and the first past -> (N, D)"""
        memory, past = encoded
        if self._fed:
            seen = self.prepare(memory, memory_lengths)
            return self._step_by_step(x, lengths, past, seen, record)
        states, _ = self.recurrence(x, lengths, past[:-1])
        if self.attention is None:
            return self.dropout(states)
        found = self.attention(states, lengths, memory, memory_lengths, record)
        return self._combined(found, states)

    def prepare(self, memory: Tensor, lengths: Lengths) -> tuple[KeyValues, Sources] | None:
        """What all steps look at."""
        if self.attention is None:
            return None
        sources = Sources.of(lengths.mask, lengths.lengths, memory.dtype)
        return self.attention.prepare(memory, lengths), sources

    def step(
        self,
        x: Tensor,
        past: Past,
        seen: tuple[KeyValues, Sources] | None,
        record: AttentionRecord | None = None,
    ) -> tuple[Tensor, Past]:
        """One new token a beam: x (B, W, D), past (B, W, ...) -> (B, W, D), and the next past"""
        flat = torch.cat([x, past[-1].to(x.dtype)], -1).flatten(0, 1)
        y, states = self.recurrence.step(flat, tuple(part.flatten(0, 1) for part in past[:-1]))
        y, *parts = (part.unflatten(0, x.shape[:2]) for part in (y, *states))
        if self.attention is None or seen is None:
            return self.dropout(y), (*parts, past[-1])
        y = self._combined(self.attention.step(y, *seen, record), y)
        return y, (*parts, y if self._fed else past[-1])

    def _combined(self, found: Tensor, states: Tensor) -> Tensor:
        assert self.combine is not None
        both = torch.cat([found.to(states.dtype), states], -1)
        return self.dropout(self.combine(both).tanh())

    def _step_by_step(
        self,
        x: Tensor,
        lengths: Lengths,
        past: Past,
        seen: tuple[KeyValues, Sources] | None,
        record: AttentionRecord | None,
    ) -> Tensor:
        own = AttentionRecord(with_weights=record is not None and record.with_weights)
        past = tuple(part.unsqueeze(1) for part in past)  # one beam
        written = []
        for column in lengths.pad(x).split(1, 1):
            y, past = self.step(column, past, seen, own if record else None)
            written.append(y)
        if record is not None and own.cross:
            record.cross.append(torch.cat(own.cross, 2))
        if record is not None and own.choices:  # what ended sentences draw counts nothing
            record.choices.append(torch.cat(own.choices, 2) * lengths.mask[:, None])
        return lengths.unpad(torch.cat(written, 1))

"""Recurrent layers: Elman, GRU and LSTM.

    Elman   s_t = tanh(W x_t + U s_{t-1} + b)
    GRU     s_t = (1 - z) n + z s_{t-1}, with a reset gate r (in n) and an update gate z
    LSTM    c_t = f c_{t-1} + i g, s_t = o tanh(c_t), with forget, input and output gates f, i, o

The layers are PyTorch's. A flat batch is passed as a PackedSequence, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.cache import KVCache, SourceMask
from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecorder, UnprojectedCrossAttention
from regard.data.ragged import Lengths
from regard.layers.dropout import Dropout

Cell = Literal["elman", "gru", "lstm"]
CELLS: dict[Cell, type[nn.RNN | nn.GRU | nn.LSTM]] = {
    "elman": nn.RNN,
    "gru": nn.GRU,
    "lstm": nn.LSTM,
}
HiddenState = tuple[Tensor, ...]  # (B, ...) each


class Recurrence(nn.Module):
    """A recurrent stack; `bidirectional`: each direction has half of the features.

    The hidden state is that of all L layers, (B, L, D), and for an LSTM also the cell state.
    """

    def __init__(
        self,
        cell: Cell,
        input_dim: int,
        d_model: int,
        num_layers: int,
        dropout: float,
        *,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        self.cells = CELLS[cell](
            input_dim,
            d_model // 2 if bidirectional else d_model,
            num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=bidirectional,
        )

    def forward(
        self, x: Tensor, lengths: Lengths, state: HiddenState | None = None
    ) -> tuple[Tensor, HiddenState]:
        """X (N, inputs) -> (N, D), and the last hidden state of each sentence"""
        with _weight_precision(x.device.type):
            packed = lengths.pack(self._to_weight_dtype(x))
            y, last = self.cells(packed, None if state is None else self._to_torch(state))
            return lengths.unpack(y), self._from_torch(last)

    def step(self, x: Tensor, state: HiddenState) -> tuple[Tensor, HiddenState]:
        """One new token per sentence: x (B, inputs) -> (B, D)"""
        with _weight_precision(x.device.type):
            y, last = self.cells(self._to_weight_dtype(x).unsqueeze(0), self._to_torch(state))
            return y.squeeze(0), self._from_torch(last)

    def _to_weight_dtype(self, x: Tensor) -> Tensor:
        return x.to(next(self.cells.parameters()).dtype)

    def _to_torch(self, state: HiddenState) -> Tensor | HiddenState:
        """In PyTorch's layout: (L, B, D), or a pair of them for an LSTM."""
        states = tuple(self._to_weight_dtype(part).transpose(0, 1).contiguous() for part in state)
        return states if len(states) > 1 else states[0]

    def _from_torch(self, states: Tensor | HiddenState) -> HiddenState:
        """(L, B, D) to (B, L, D); bidirectional, (2 L, B, D / 2) to (B, L, D)."""
        parts = (states,) if isinstance(states, Tensor) else states
        num_layers = self.cells.num_layers
        return tuple(
            part.unflatten(0, (num_layers, -1)).permute(2, 0, 1, 3).flatten(2) for part in parts
        )


@contextmanager
def _weight_precision(device: str) -> Iterator[None]:
    """Compute in the dtype of the weights: under autocast cuDNN would use float16.

    TF32 is allowed only under autocast.
    """
    half = torch.is_autocast_enabled(device)
    with (
        torch.autocast(device, enabled=False),
        torch.backends.cudnn.flags(enabled=torch.backends.cudnn.enabled, allow_tf32=half),
    ):
        yield


class RecurrentDecoder(nn.Module):
    """A recurrent decoder, with or without attention.

        s_t = f(s_{t-1}, y_{t-1})
        h_t = tanh(W [att((K, V), s_t); s_t])           without attention: h_t = s_t

    With input feeding (Luong et al., 2015, arXiv:1508.04025), h_{t-1} is also an input of f. Then
    training is sequential, too.
    """

    def __init__(
        self,
        cell: Cell,
        d_model: int,
        num_layers: int,
        dropout: float,
        attention: UnprojectedCrossAttention | None,
        *,
        input_feeding: bool,
    ) -> None:
        super().__init__()
        self._feedback_size = d_model if input_feeding else 0
        self.recurrence = Recurrence(
            cell, d_model + self._feedback_size, d_model, num_layers, dropout
        )
        self.attention = attention
        self.combine = Linear(2 * d_model, d_model) if attention else None
        self.dropout = Dropout(dropout)

    def initial_state(self, last: HiddenState) -> HiddenState:
        """The hidden state before the first step, from the encoder's last one; h_0 is zero."""
        return *last, last[0].new_zeros(len(last[0]), self._feedback_size)

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        encoded: tuple[Tensor, HiddenState],
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """X (N, D), encoded: encoder output (M, D) and initial hidden state -> (N, D)"""
        encoder_output, state = encoded
        if self._feedback_size:
            source = self.new_cache(encoder_output, source_lengths)
            return self._step_by_step(x, lengths, state, source, recorder)
        states, _ = self.recurrence(x, lengths, state[:-1])
        if self.attention is None:
            return self.dropout(states)
        context = self.attention(states, lengths, encoder_output, source_lengths, recorder)
        return self._combine(context, states)

    def new_cache(
        self, encoder_output: Tensor, lengths: Lengths
    ) -> tuple[KVCache, SourceMask] | None:
        """The keys and values of cross-attention and their mask, for all steps."""
        if self.attention is None:
            return None
        source_mask = SourceMask.of(lengths.mask, lengths.lengths, encoder_output.dtype)
        return self.attention.new_cache(encoder_output, lengths), source_mask

    def step(
        self,
        x: Tensor,
        state: HiddenState,
        source: tuple[KVCache, SourceMask] | None,
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, HiddenState]:
        """One new token per beam: x (B, W, D), state (B, W, ...) -> (B, W, D), next state"""
        flat = torch.cat([x, state[-1].to(x.dtype)], -1).flatten(0, 1)
        y, states = self.recurrence.step(flat, tuple(part.flatten(0, 1) for part in state[:-1]))
        y, *parts = (part.unflatten(0, x.shape[:2]) for part in (y, *states))
        if self.attention is None or source is None:
            return self.dropout(y), (*parts, state[-1])
        y = self._combine(self.attention.step(y, *source, recorder), y)
        return y, (*parts, y if self._feedback_size else state[-1])

    def _combine(self, context: Tensor, states: Tensor) -> Tensor:
        assert self.combine is not None
        both = torch.cat([context.to(states.dtype), states], -1)
        return self.dropout(self.combine(both).tanh())

    def _step_by_step(
        self,
        x: Tensor,
        lengths: Lengths,
        state: HiddenState,
        source: tuple[KVCache, SourceMask] | None,
        recorder: AttentionRecorder | None,
    ) -> Tensor:
        with_weights = recorder is not None and recorder.with_weights
        step_recorder = AttentionRecorder(with_weights=with_weights)
        state = tuple(part.unsqueeze(1) for part in state)  # one beam
        outputs = []
        for column in lengths.pad(x).split(1, 1):
            y, state = self.step(column, state, source, step_recorder if recorder else None)
            outputs.append(y)
        if recorder is not None and step_recorder.cross:
            recorder.cross.append(torch.cat(step_recorder.cross, 2))
        if recorder is not None and step_recorder.selection_log_probs:  # padding does not count
            log_probs = torch.cat(step_recorder.selection_log_probs, 2) * lengths.mask[:, None]
            recorder.selection_log_probs.append(log_probs)
        return lengths.unpad(torch.cat(outputs, 1))

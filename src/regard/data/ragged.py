"""Ragged batches: concatenated tokens of all sentences, and their lengths.

Token-wise operations work on the flat row, without padding. Operations across tokens, such as
attention, also take the `Lengths`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to another device, asynchronously if that is a GPU.

    An asynchronous copy to the CPU could be read before it is complete.
    """
    return tensor.to(device, non_blocking=device.type != "cpu")


class Lengths:
    """The lengths of the B sentences in a flat row of N tokens."""

    def __init__(
        self, lengths: Tensor, *, longest: int, total: int, host: Tensor | None = None
    ) -> None:
        self.lengths = lengths  # (B,)
        self.longest = longest
        self.total = total
        self._host = lengths if lengths.is_cpu else host

    @staticmethod
    def of(lengths: Sequence[int]) -> Lengths:
        """From integers; maximum and sum are computed without GPU synchronization."""
        return Lengths(torch.tensor(lengths), longest=max(lengths), total=sum(lengths))

    def __len__(self) -> int:
        return self.lengths.numel()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as integers."""
        return Lengths.of, (self.host.tolist(),)

    def to(self, device: torch.device) -> Lengths:
        """The same on another device."""
        if self.lengths.device == device:
            return self
        moved = to_device(self.lengths, device)
        return Lengths(moved, longest=self.longest, total=self.total, host=self._host)

    def padded_to(self, longest: int) -> Lengths:
        """The same lengths, padded as if the longest sentence had `longest` tokens."""
        assert longest >= self.longest
        return Lengths(self.lengths, longest=longest, total=self.total, host=self._host)

    def repeat(self, times: int) -> Lengths:
        """All sentences, `times` times in a row."""
        return self._changed(lambda n: n.repeat(times), self.longest, times * self.total)

    def scaled(self, factor: int) -> Lengths:
        """Each length multiplied by a factor."""
        return self._changed(lambda n: n * factor, self.longest * factor, self.total * factor)

    def extended(self, tokens: int) -> Lengths:
        """Each length plus a number of tokens, which may be negative."""
        total = self.total + tokens * len(self)
        return self._changed(lambda n: n + tokens, self.longest + tokens, total)

    def _changed(self, change: Callable[[Tensor], Tensor], longest: int, total: int) -> Lengths:
        host = None if self._host is None else change(self._host)
        return Lengths(change(self.lengths), longest=longest, total=total, host=host)

    def concatenated(self, others: Lengths) -> Lengths:
        """The lengths after concatenating each sentence with one of `others`."""
        host = self.host + others.host
        longest, total = int(host.max()), self.total + others.total
        return Lengths(self.lengths + others.lengths, longest=longest, total=total, host=host)

    @property
    def all_equal(self) -> bool:
        """Whether all sentences have the maximum length."""
        return self.total == len(self) * self.longest

    @property
    def host(self) -> Tensor:
        """The lengths on the CPU; copied from the device only if no CPU copy is stored. (B,)"""
        return self.lengths.cpu() if self._host is None else self._host

    @cached_property
    def offsets(self) -> Tensor:
        """Where each sentence begins, and N at the end. (B + 1,), int32 for varlen kernels."""
        return torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def sentence(self) -> Tensor:
        """The index of the sentence of each token. (N,)"""
        rows = torch.arange(len(self), device=self.lengths.device)
        return rows.repeat_interleave(self.lengths, output_size=self.total)

    @cached_property
    def positions(self) -> Tensor:
        """The position of each token in its sentence. (N,)"""
        tokens = torch.arange(self.total, device=self.lengths.device)
        return tokens - self.offsets[self.sentence]

    @cached_property
    def padded_indices(self) -> Tensor:
        """The index of each token in the flattened padded batch. (N,)"""
        return self.sentence * self.longest + self.positions

    @cached_property
    def mask(self) -> Tensor:
        """Padding mask: True for tokens, False for padding. (B, T)"""
        positions = torch.arange(self.longest, device=self.lengths.device)
        return positions < self.lengths[:, None]

    @cached_property
    def positions_before_eos(self) -> Tensor:
        """The index of each token in the row of the same sentences with EOS. (N,)"""
        return torch.arange(self.total, device=self.lengths.device) + self.sentence

    def sums(self, rows: Tensor) -> Tensor:
        """The sum over the tokens of each sentence. (..., N) -> (..., B)"""
        sums = rows.new_zeros(*rows.shape[:-1], len(self))
        return sums.index_add_(-1, self.sentence, rows)

    def pad(self, row: Tensor) -> Tensor:
        """(N, ...) to (B, T, ...), padded with zeros."""
        padded: Tensor = _Pad.apply(row, self.padded_indices, len(self) * self.longest)  # type: ignore[no-untyped-call]
        return padded.unflatten(0, (len(self), self.longest))

    def unpad(self, padded: Tensor) -> Tensor:
        """(B, T, ...) to (N, ...)."""
        row: Tensor = _Unpad.apply(padded.flatten(0, 1), self.padded_indices)  # type: ignore[no-untyped-call]
        return row

    @cached_property
    def _by_length(self) -> Tensor:
        """Sentence indices by decreasing length. (B,)"""
        return self.lengths.argsort(descending=True, stable=True)

    @cached_property
    def _by_position(self) -> Tensor:
        """Token indices in time-major order, by decreasing length within a position. (N,)"""
        rank = self._by_length.argsort()
        return (self.positions * len(self) + rank[self.sentence]).argsort()

    def pack(self, row: Tensor) -> PackedSequence:
        """(N, ...) to a PackedSequence, for PyTorch's recurrent layers."""
        positions = torch.arange(int(self.host.max()))
        sizes = (self.host[:, None] > positions).sum(0)  # number of sentences at each position
        data: Tensor = _Unpad.apply(row, self._by_position)  # type: ignore[no-untyped-call]
        return PackedSequence(data, sizes, self._by_length, self._by_length.argsort())

    def unpack(self, packed: PackedSequence) -> Tensor:
        """A PackedSequence to (N, ...)."""
        row: Tensor = _Pad.apply(packed.data, self._by_position, self.total)  # type: ignore[no-untyped-call]
        return row


class _Pad(torch.autograd.Function):
    """Copies rows to their indices. Its gradient is `_Unpad`, an index_select."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, indices: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(indices)
        return row.new_zeros(size, *row.shape[1:]).index_copy_(0, indices, row)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (indices,) = ctx.saved_tensors
        return gradients[0].index_select(0, indices), None, None


class _Unpad(torch.autograd.Function):
    """Selects rows by their indices. Its gradient is `_Pad`."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.size = len(padded)
        return padded.index_select(0, indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (indices,) = ctx.saved_tensors
        gradient = gradients[0]
        return gradient.new_zeros(ctx.size, *gradient.shape[1:]).index_copy_(
            0, indices, gradient
        ), None


@dataclass(frozen=True)
class Ragged:
    """Concatenated sentences of token ids."""

    tokens: Tensor  # (N,)
    lengths: Lengths

    @staticmethod
    def of(sentences: Sequence[Sequence[int]]) -> Ragged:
        """From lists of ids."""
        flat = [token for sentence in sentences for token in sentence]
        tokens = torch.tensor(flat, dtype=torch.long)
        return Ragged(tokens, Lengths.of([len(sentence) for sentence in sentences]))

    def to(self, device: torch.device) -> Ragged:
        """The same on another device."""
        return Ragged(to_device(self.tokens, device), self.lengths.to(device))

    def padded_to(self, longest: int) -> Ragged:
        """The same lengths, padded as if the longest sentence had `longest` tokens."""
        return Ragged(self.tokens, self.lengths.padded_to(longest))

    def repeat(self, times: int) -> Ragged:
        """All sentences, `times` times in a row."""
        return Ragged(self.tokens.repeat(times), self.lengths.repeat(times))

    def repeat_tokens(self, times: Tensor, lengths: Lengths) -> Ragged:
        """Each token repeated `times` times, (N,); `lengths` are the resulting lengths."""
        return Ragged(self.tokens.repeat_interleave(times, output_size=lengths.total), lengths)

    def without_eos(self) -> Ragged:
        """Each sentence without its last token."""
        lengths = self.lengths.extended(-1)
        return Ragged(self.tokens[lengths.positions_before_eos], lengths)

    def with_eos(self, eos: int) -> Ragged:
        """Each sentence with EOS appended."""
        lengths = self.lengths.extended(1)
        tokens = self.tokens.new_full((lengths.total,), eos)
        return Ragged(
            tokens.index_copy_(0, self.lengths.positions_before_eos, self.tokens), lengths
        )

    def shifted_right(self, bos: int) -> Ragged:
        """Each sentence with BOS prepended and its last token removed: the decoder input."""
        tokens = self.tokens.roll(1).masked_fill(self.lengths.positions == 0, bos)
        return Ragged(tokens, self.lengths)

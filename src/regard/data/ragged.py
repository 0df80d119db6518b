"""The flat row: tokens of sentences laid end to end, and a list of lengths.

Everything that works on single tokens takes the row and never sees padding. Only what is handed
the `Lengths` looks across tokens and knows where a sentence begins and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


def on_device(part: Tensor, device: torch.device) -> Tensor:
    """A tensor on another device; only a copy to a GPU goes on in the background.

    In the background, a copy to the host may be read before it has arrived.
    """
    return part.to(device, non_blocking=device.type != "cpu")


class Lengths:
    """Where the B sentences lie in a row of N tokens."""

    def __init__(
        self, lengths: Tensor, *, longest: int, total: int, host: Tensor | None = None
    ) -> None:
        self.lengths = lengths  # (B,)
        self.longest = longest
        self.total = total
        self._host = lengths if lengths.is_cpu else host

    @staticmethod
    def of(lengths: Sequence[int]) -> Lengths:
        """From plain numbers; the longest and the sum are known without asking a GPU."""
        return Lengths(torch.tensor(lengths), longest=max(lengths), total=sum(lengths))

    def __len__(self) -> int:
        return self.lengths.numel()

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process as plain numbers."""
        return Lengths.of, (self.host.tolist(),)

    def to(self, device: torch.device) -> Lengths:
        """The same on another device."""
        if self.lengths.device == device:
            return self
        moved = on_device(self.lengths, device)
        return Lengths(moved, longest=self.longest, total=self.total, host=self._host)

    def up_to(self, longest: int) -> Lengths:
        """The same, laid out as if the longest sentence had so many tokens."""
        assert longest >= self.longest
        return Lengths(self.lengths, longest=longest, total=self.total, host=self._host)

    def repeated(self, rounds: int) -> Lengths:
        """All sentences, and then all of them again, so many rounds of them."""
        return self._changed(lambda n: n.repeat(rounds), self.longest, rounds * self.total)

    def times(self, factor: int) -> Lengths:
        """Sentences so many times as long."""
        return self._changed(lambda n: n * factor, self.longest * factor, self.total * factor)

    def longer(self, tokens: int) -> Lengths:
        """Each sentence so many tokens longer; below 0, shorter."""
        total = self.total + tokens * len(self)
        return self._changed(lambda n: n + tokens, self.longest + tokens, total)

    def _changed(self, change: Callable[[Tensor], Tensor], longest: int, total: int) -> Lengths:
        host = None if self._host is None else change(self._host)
        return Lengths(change(self.lengths), longest=longest, total=total, host=host)

    def plus(self, others: Lengths) -> Lengths:
        """Each sentence with another one after it."""
        host = self.host + others.host
        longest, total = int(host.max()), self.total + others.total
        return Lengths(self.lengths + others.lengths, longest=longest, total=total, host=host)

    @property
    def are_equal(self) -> bool:
        """Whether all sentences are as long as the longest."""
        return self.total == len(self) * self.longest

    @property
    def host(self) -> Tensor:
        """The lengths on the CPU; a device is asked only if nobody remembers them. (B,)"""
        return self.lengths.cpu() if self._host is None else self._host

    @cached_property
    def offsets(self) -> Tensor:
        """Where each sentence begins, and at last N. (B + 1,), int32 as ragged kernels want it."""
        return torch.nn.functional.pad(self.lengths.cumsum(0), (1, 0)).to(torch.int32)

    @cached_property
    def sentence(self) -> Tensor:
        """The sentence of each token. (N,)"""
        rows = torch.arange(len(self), device=self.lengths.device)
        return rows.repeat_interleave(self.lengths, output_size=self.total)

    @cached_property
    def positions(self) -> Tensor:
        """The place of each token in its sentence. (N,)"""
        tokens = torch.arange(self.total, device=self.lengths.device)
        return tokens - self.offsets[self.sentence]

    @cached_property
    def slots(self) -> Tensor:
        """The place of each token in the padded rows laid end to end. (N,)"""
        return self.sentence * self.longest + self.positions

    @cached_property
    def mask(self) -> Tensor:
        """True where a padded row holds a real token. (B, T)"""
        places = torch.arange(self.longest, device=self.lengths.device)
        return places < self.lengths[:, None]

    @cached_property
    def before_ends(self) -> Tensor:
        """Where these tokens stand in the row of the same sentences with ends. (N,)"""
        return torch.arange(self.total, device=self.lengths.device) + self.sentence

    def sums(self, rows: Tensor) -> Tensor:
        """The sum over each sentence. (..., N) -> (..., B)"""
        sums = rows.new_zeros(*rows.shape[:-1], len(self))
        return sums.index_add_(-1, self.sentence, rows)

    def pad(self, row: Tensor) -> Tensor:
        """(N, ...) to (B, T, ...), with zeros after each sentence's end."""
        padded: Tensor = _Pad.apply(row, self.slots, len(self) * self.longest)  # type: ignore[no-untyped-call]
        return padded.unflatten(0, (len(self), self.longest))

    def unpad(self, padded: Tensor) -> Tensor:
        """(B, T, ...) to (N, ...)."""
        row: Tensor = _Unpad.apply(padded.flatten(0, 1), self.slots)  # type: ignore[no-untyped-call]
        return row

    @cached_property
    def _by_length(self) -> Tensor:
        """The sentences, the longest first. (B,)"""
        return self.lengths.argsort(descending=True, stable=True)

    @cached_property
    def _by_place(self) -> Tensor:
        """The tokens: all that come first, the longest sentence's first, then the second. (N,)"""
        rank = self._by_length.argsort()
        return (self.positions * len(self) + rank[self.sentence]).argsort()

    def pack(self, row: Tensor) -> PackedSequence:
        """(N, ...) as PyTorch's recurrent layers want it: the same tokens, place by place."""
        places = torch.arange(int(self.host.max()))
        sizes = (self.host[:, None] > places).sum(0)  # how many sentences reach each place
        data: Tensor = _Unpad.apply(row, self._by_place)  # type: ignore[no-untyped-call]
        return PackedSequence(data, sizes, self._by_length, self._by_length.argsort())

    def unpack(self, packed: PackedSequence) -> Tensor:
        """Back to (N, ...)."""
        row: Tensor = _Pad.apply(packed.data, self._by_place, self.total)  # type: ignore[no-untyped-call]
        return row


class _Pad(torch.autograd.Function):
    """Rows copied to their slots. Its gradient is `_Unpad`: a plain look-up, no accumulation."""

    @staticmethod
    def forward(ctx: Any, row: Tensor, slots: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(slots)
        return row.new_zeros(size, *row.shape[1:]).index_copy_(0, slots, row)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slots,) = ctx.saved_tensors
        return gradients[0].index_select(0, slots), None, None


class _Unpad(torch.autograd.Function):
    """Rows looked up from their slots. Its gradient is `_Pad`."""

    @staticmethod
    def forward(ctx: Any, padded: Tensor, slots: Tensor) -> Tensor:
        ctx.save_for_backward(slots)
        ctx.size = len(padded)
        return padded.index_select(0, slots)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (slots,) = ctx.saved_tensors
        gradient = gradients[0]
        return gradient.new_zeros(ctx.size, *gradient.shape[1:]).index_copy_(
            0, slots, gradient
        ), None


@dataclass(frozen=True)
class Ragged:
    """Sentences of ids, end to end."""

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
        return Ragged(on_device(self.tokens, device), self.lengths.to(device))

    def up_to(self, longest: int) -> Ragged:
        """The same, laid out as if the longest sentence had so many tokens."""
        return Ragged(self.tokens, self.lengths.up_to(longest))

    def repeated(self, rounds: int) -> Ragged:
        """All sentences, and then all of them again, so many rounds of them."""
        return Ragged(self.tokens.repeat(rounds), self.lengths.repeated(rounds))

    def copied(self, times: Tensor, lengths: Lengths) -> Ragged:
        """Each token as often as `times` says, (N,), which makes sentences of these lengths."""
        return Ragged(self.tokens.repeat_interleave(times, output_size=lengths.total), lengths)

    def without_ends(self) -> Ragged:
        """Each sentence without its last token."""
        lengths = self.lengths.longer(-1)
        return Ragged(self.tokens[lengths.before_ends], lengths)

    def with_ends(self, end: int) -> Ragged:
        """Each sentence with `end` after it."""
        lengths = self.lengths.longer(1)
        tokens = self.tokens.new_full((lengths.total,), end)
        return Ragged(tokens.index_copy_(0, self.lengths.before_ends, self.tokens), lengths)

    def shifted_right(self, start: int) -> Ragged:
        """Each sentence with `start` before it and its last token gone: what a decoder reads."""
        tokens = self.tokens.roll(1).masked_fill(self.lengths.positions == 0, start)
        return Ragged(tokens, self.lengths)

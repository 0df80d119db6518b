"""A stack that remembers: what its blocks read of the segments before stands before the next.

    h~ = [ stop_gradient(memory) ; h ]          keys and values are made of h~, queries of h

Segments are read one after another, and no gradient flows from one into the other (Dai et al.,
2019, arXiv:1901.02860). The memory is handed in and handed out; it never lives in a module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.masks import causal, segments
from regard.attention.multihead import AttentionRecord
from regard.data.ragged import Lengths
from regard.errors import ModelError
from regard.layers.encoder import Encoder, EncoderBlock
from regard.layers.residual import Residual


@dataclass(frozen=True)
class Memory:
    """What B streams left behind: for each block what it read, the newest last."""

    states: tuple[Tensor, ...]  # (B, M, D) of each block, without gradients
    documents: Tensor  # (B, M) the number of the document that each token was of
    room: int  # so many tokens are kept

    @staticmethod
    def empty(streams: int, blocks: int, like: Tensor, room: int) -> Memory:
        """Before anything was read; `like` (..., D)"""
        nothing = like.new_zeros(streams, 0, like.shape[-1])
        documents = torch.zeros(streams, 0, dtype=torch.long, device=like.device)
        return Memory((nothing,) * blocks, documents, room)

    def tensors(self) -> dict[str, Tensor]:
        """For a file."""
        states = {f"{number}": part.contiguous() for number, part in enumerate(self.states)}
        return {**states, "documents": self.documents.contiguous()}

    @staticmethod
    def of(tensors: dict[str, Tensor], room: int, device: torch.device) -> Memory:
        """From a file."""
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        documents = moved.pop("documents", None)
        names = [f"{number}" for number in range(len(moved))]
        if documents is None or documents.dtype != torch.long or {*names} != moved.keys():
            raise ModelError("the memory of the model lacks a part")
        states = tuple(moved[name] for name in names)
        if documents.ndim != 2 or any(state.shape[:-1] != documents.shape for state in states):
            raise ModelError("the parts of the memory of the model differ in shape")
        return Memory(states, documents, room)

    @property
    def length(self) -> int:
        """Tokens that are remembered of each stream."""
        return self.documents.shape[1]

    @property
    def last_document(self) -> Tensor:
        """The number of the document that each stream is in. (B, 1)"""
        if not self.length:
            return self.documents.new_zeros(len(self.documents), 1)
        return self.documents[:, -1:]

    def after(self, read: Sequence[Tensor], lengths: Lengths, documents: Tensor) -> Memory | None:
        """With another segment: what each block read of it, (N, D), and its documents (B, T).

        Only streams that go on side by side are remembered: rows of unequal length do not go on.
        """
        if not lengths.are_equal:
            return None
        states = tuple(
            self._newest(old, lengths.pad(new.detach()))
            for old, new in zip(self.states, read, strict=True)
        )
        return replace(self, states=states, documents=self._newest(self.documents, documents))

    def _newest(self, old: Tensor, new: Tensor) -> Tensor:
        both = torch.cat([old.to(new.dtype), new], 1)
        return both[:, max(both.shape[1] - self.room, 0) :]


def sight(lengths: Lengths, memory: Memory, documents: Tensor | None) -> Tensor:
    """A token sees the memory, itself and what came before; of its own document, if they count.

    documents (B, T) -> (B, 1, T, M + T)
    """
    mask = causal(lengths.longest, memory.length + lengths.longest, lengths.lengths.device)
    if documents is None:
        return mask[None, None]
    return mask & segments(documents, torch.cat([memory.documents, documents], 1))


def normed(residual: Residual, before: Tensor) -> Tensor:
    """What attention reads of a memory; where there is none yet, nothing has to be done."""
    return residual.before(before) if before.numel() else before


class RecallBlock(EncoderBlock):
    """Self-attention that looks into a memory too, then feed-forward."""

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        record: AttentionRecord | None = None,
        before: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """X (N, D), before (B, M, D), mask (B, 1, T, M + T) -> (N, D)"""
        assert before is not None
        assert mask is not None
        y = self.attention_residual.before(x)
        recalled = self.attention.recalled(y, lengths, normed(self.attention_residual, before))
        y = self.attention.ask(y, lengths, recalled, mask, record=record)
        return self.rest(x, y, lengths)


class RecallStack(Encoder):
    """A causal stack whose segments go on where those before them ended."""

    block = RecallBlock

    def read(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Memory,
        mask: Tensor,
        record: AttentionRecord | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """X (N, D), mask (B, 1, T, M + T) -> (N, D), and what each block read."""
        read = []
        for block, before in zip(self.blocks, memory.states, strict=True):
            read.append(x)
            x = block(x, lengths, record, before, mask)
        return self.norm(x), read

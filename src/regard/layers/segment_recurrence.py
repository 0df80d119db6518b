"""Segment recurrence (Transformer-XL): blocks attend to the hidden states of previous segments.

    h~ = [ stop_gradient(memory) ; h ]          keys and values of h~, queries of h

No gradient flows from one segment into the previous one (Dai et al., 2019, arXiv:1901.02860). The
memory is an argument and a result of the stack, not a state of the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.masks import causal, segments
from regard.attention.multihead import AttentionRecorder
from regard.data.ragged import Lengths
from regard.errors import ModelError
from regard.layers.encoder import Encoder, EncoderBlock
from regard.layers.residual import Residual


@dataclass(frozen=True)
class Memory:
    """The inputs of each block for the last tokens of B streams, the newest last."""

    states: tuple[Tensor, ...]  # (B, M, D) for each block, without gradients
    documents: Tensor  # (B, M) the document number of each token
    max_length: int

    @staticmethod
    def empty(streams: int, blocks: int, like: Tensor, max_length: int) -> Memory:
        """The memory before the first segment; `like` (..., D)"""
        states = like.new_zeros(streams, 0, like.shape[-1])
        documents = torch.zeros(streams, 0, dtype=torch.long, device=like.device)
        return Memory((states,) * blocks, documents, max_length)

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint."""
        states = {f"{number}": part.contiguous() for number, part in enumerate(self.states)}
        return {**states, "documents": self.documents.contiguous()}

    @staticmethod
    def of(tensors: dict[str, Tensor], max_length: int, device: torch.device) -> Memory:
        """From the tensors of a checkpoint."""
        moved = {name: tensor.to(device) for name, tensor in tensors.items()}
        documents = moved.pop("documents", None)
        names = [f"{number}" for number in range(len(moved))]
        if documents is None or documents.dtype != torch.long or {*names} != moved.keys():
            raise ModelError("the memory of the model has missing tensors")
        states = tuple(moved[name] for name in names)
        if documents.ndim != 2 or any(state.shape[:-1] != documents.shape for state in states):
            raise ModelError("the tensors of the memory of the model differ in shape")
        return Memory(states, documents, max_length)

    @property
    def length(self) -> int:
        """The number of tokens of each stream."""
        return self.documents.shape[1]

    @property
    def last_document(self) -> Tensor:
        """The number of the last document of each stream. (B, 1)"""
        if not self.length:
            return self.documents.new_zeros(len(self.documents), 1)
        return self.documents[:, -1:]

    def updated(
        self, inputs: Sequence[Tensor], lengths: Lengths, documents: Tensor
    ) -> Memory | None:
        """The memory after another segment: inputs of each block (N, D), documents (B, T).

        None if the rows differ in length: then they are not segments of streams.
        """
        if not lengths.all_equal:
            return None
        states = tuple(
            self._append(old, lengths.pad(new.detach()))
            for old, new in zip(self.states, inputs, strict=True)
        )
        return replace(self, states=states, documents=self._append(self.documents, documents))

    def _append(self, old: Tensor, new: Tensor) -> Tensor:
        both = torch.cat([old.to(new.dtype), new], 1)
        return both[:, max(both.shape[1] - self.max_length, 0) :]


def memory_mask(lengths: Lengths, memory: Memory, documents: Tensor | None) -> Tensor:
    """Causal mask over memory and segment; with `documents`, within the token's document.

    documents (B, T) -> (B, 1, T, M + T)
    """
    mask = causal(lengths.longest, memory.length + lengths.longest, lengths.lengths.device)
    if documents is None:
        return mask[None, None]
    return mask & segments(documents, torch.cat([memory.documents, documents], 1))


def norm_memory(residual: Residual, memory: Tensor) -> Tensor:
    """Apply the norm of pre-norm blocks to a memory, which may be empty. (B, M, D)"""
    return residual.before(memory) if memory.numel() else memory


class MemoryBlock(EncoderBlock):
    """Self-attention to a memory and the segment, then feed-forward network."""

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        recorder: AttentionRecorder | None = None,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """X (N, D), memory (B, M, D), mask (B, 1, T, M + T) -> (N, D)"""
        assert memory is not None
        assert mask is not None
        y = self.attention_residual.before(x)
        memory = norm_memory(self.attention_residual, memory)
        keys_values = self.attention.keys_values_with_memory(y, lengths, memory)
        y = self.attention.attend_with_memory(y, lengths, keys_values, mask, recorder=recorder)
        return self.after_attention(x, y, lengths)


class MemoryStack(Encoder):
    """A causal stack with segment recurrence."""

    block = MemoryBlock

    def forward_segment(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Memory,
        mask: Tensor,
        recorder: AttentionRecorder | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """X (N, D), mask (B, 1, T, M + T) -> (N, D), and the input of each block."""
        inputs = []
        for block, states in zip(self.blocks, memory.states, strict=True):
            inputs.append(x)
            x = block(x, lengths, recorder, states, mask)
        return self.norm(x), inputs

"""A decoder that writes all words at once: nothing hides what comes later."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.multihead import AttentionRecord, PositionalAttention
from regard.attention.positions import SinusoidalPositions
from regard.data.ragged import Lengths
from regard.layers.block import BlockShape


class ParallelBlock(nn.Module):
    """Self-attention to all places, attention by place, attention to the source, feed-forward."""

    def __init__(self, shape: BlockShape, *, positional: bool, mask_diagonal: bool) -> None:
        super().__init__()
        self.attention = shape.self_attention(mask_diagonal=mask_diagonal)
        self.attention_residual = shape.residual()
        self.positional = PositionalAttention(shape.attention) if positional else None
        self.positional_residual = shape.residual() if positional else None
        self.cross = shape.cross_attention()
        self.cross_residual = shape.residual()
        self.feedforward = shape.feedforward(causal=False)
        self.feedforward_residual = shape.residual()

    def forward(
        self,
        x: Tensor,
        positions: Tensor | None,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), positions (N, D), memory (M, D) -> (N, D)"""
        inside = None if record is None else record.of_decoder()
        y = self.attention_residual.before(x)
        y = self.attention(y, lengths, causal=False, record=inside)
        x = self.attention_residual.after(x, y)
        if self.positional is not None and self.positional_residual is not None:
            y = self.positional_residual.before(x)
            y = self.positional(y, positions, lengths)
            x = self.positional_residual.after(x, y)
        y = self.cross_residual.before(x)
        y = self.cross(y, lengths, memory, memory_lengths, record=record)
        x = self.cross_residual.after(x, y)
        y = self.feedforward(self.feedforward_residual.before(x), lengths)
        return self.feedforward_residual.after(x, y)


class ParallelDecoder(nn.Module):
    """A stack of blocks; `positional`: each also attends by place.

    With `mask_diagonal` no position attends to itself in self-attention.
    """

    def __init__(
        self, layers: int, shape: BlockShape, *, positional: bool, mask_diagonal: bool = False
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            ParallelBlock(shape, positional=positional, mask_diagonal=mask_diagonal)
            for _ in range(layers)
        )
        self.norm = shape.last_norm()
        self.positions = SinusoidalPositions(shape.width, "interleaved") if positional else None

    def forward(
        self,
        x: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, D) -> (N, D)"""
        positions = None
        if self.positions is not None:
            positions = self.positions(lengths.positions, lengths.longest).to(x.dtype)
        for block in self.blocks:
            x = block(x, positions, lengths, memory, memory_lengths, record)
        return self.norm(x)

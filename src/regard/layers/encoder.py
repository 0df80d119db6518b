"""The encoder: blocks of self-attention and feed-forward."""

from __future__ import annotations

from torch import Tensor, nn

from regard.attention.multihead import AttentionRecord
from regard.data.ragged import Lengths
from regard.layers.block import BlockShape


class EncoderBlock(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        self.attention = shape.self_attention()
        self.attention_residual = shape.residual()
        self.feedforward = shape.feedforward(causal=False)
        self.feedforward_residual = shape.residual()

    def forward(self, x: Tensor, lengths: Lengths, record: AttentionRecord | None = None) -> Tensor:
        """X (N, D) -> (N, D)"""
        y = self.attention_residual.before(x)
        y = self.attention(y, lengths, causal=False, record=record)
        x = self.attention_residual.after(x, y)
        y = self.feedforward(self.feedforward_residual.before(x), lengths)
        return self.feedforward_residual.after(x, y)


class Encoder(nn.Module):
    """A stack of blocks."""

    def __init__(self, layers: int, shape: BlockShape) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(shape) for _ in range(layers))
        self.norm = shape.last_norm()

    def forward(self, x: Tensor, lengths: Lengths, record: AttentionRecord | None = None) -> Tensor:
        """X (N, D) -> (N, D)"""
        for block in self.blocks:
            x = block(x, lengths, record)
        return self.norm(x)

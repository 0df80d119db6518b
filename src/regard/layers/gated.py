"""Gated convolutions in a stack: the encoder and decoder of convolutional sequence to sequence.

A sum of two things of variance 1 has variance 2: every sum here is scaled by sqrt(0.5).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import KeyValues, Sources
from regard.attention.config import AttentionShape
from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecord, MemoryAttention
from regard.data.ragged import Lengths
from regard.layers.convolution import Convolution
from regard.layers.dropout import Dropout

_HALF = 0.5**0.5


class GatedConvolution(nn.Module):
    """`A sigmoid(B)`, where A and B are two convolutions of x (Dauphin et al., 2017)."""

    def __init__(self, width: int, kernel: int, dropout: float, *, causal: bool) -> None:
        super().__init__()
        self.convolution = Convolution(width, 2 * width, causal=causal, kernel=kernel)
        self.dropout = Dropout(dropout)
        self._share = (1.0 - dropout) / (kernel * width)

    def initialize(self) -> None:
        """So that the variance stays near 1: of 3, a gate leaves a third.

        The paper has 4 for 3, and inputs so small that all gates are half open.
        """
        nn.init.normal_(self.convolution.weight.weight, std=(3.0 * self._share) ** 0.5)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, D)"""
        return F.glu(self.convolution(self.dropout(x), lengths))

    def step(self, x: Tensor, past: Tensor) -> Tensor:
        """One new token a beam: x (B, W, D), past (B, W, k - 1, D), moved on -> (B, W, D)"""
        return F.glu(self.convolution.step(self.dropout(x), past))


class ConvolutionalEncoder(nn.Module):
    """`x + gated(x)`, some times; each layer sees a little further."""

    def __init__(self, layers: int, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            GatedConvolution(width, kernel, dropout, causal=False) for _ in range(layers)
        )

    def forward(self, x: Tensor, lengths: Lengths, record: AttentionRecord | None = None) -> Tensor:
        """X (N, D) -> what the decoder looks at: keys, and values beside them. (N, 2 D)"""
        keys = x
        for block in self.blocks:
            keys = (keys + block(keys, lengths)) * _HALF
        return torch.cat([keys, (keys + x) * _HALF], -1)


class PairedAttention(MemoryAttention):
    """Attention to a memory that has keys and values side by side."""

    def keys_values(self, memory: Tensor) -> list[Tensor]:
        """(M, 2 D) -> (M, 1, D) twice"""
        return [part.unsqueeze(-2) for part in memory.chunk(2, -1)]


class ConvolutionalBlock(nn.Module):
    """A gated convolution of what was written, and attention to the source.

        u = gated(x)
        c = sqrt(S) att((K, V), W_q u + e)
        x + (u + W_c c)

    e is the embedding of the word that was read, S the number of source words: the mean of S values
    has the variance of one of them over S.
    """

    def __init__(self, shape: AttentionShape, kernel: int, dropout: float) -> None:
        super().__init__()
        self.gated = GatedConvolution(shape.width, kernel, dropout, causal=True)
        self.query = Linear(shape.width, shape.width)
        self.attention = PairedAttention(shape)
        self.combine = Linear(shape.width, shape.width)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """X (N, D), memory (M, 2 D) -> (N, D)"""
        y = self.gated(x, lengths)
        query = self._query(y, embedded)
        found = self.attention(query, lengths, memory, memory_lengths, record)
        words = memory_lengths.lengths[lengths.sentence, None]
        return self._sum(x, y, found, words)

    def step(
        self, x: Tensor, embedded: Tensor, past: Tensor, memory: KeyValues, sources: Sources
    ) -> Tensor:
        """One new token a beam: x (B, W, D) -> (B, W, D)"""
        y = self.gated.step(x, past)
        found = self.attention.step(self._query(y, embedded), memory, sources)
        return self._sum(x, y, found, sources.lengths[:, None, None])

    def _query(self, y: Tensor, embedded: Tensor) -> Tensor:
        return (self.query(y) + embedded) * _HALF

    def _sum(self, x: Tensor, y: Tensor, found: Tensor, words: Tensor) -> Tensor:
        found = self.combine(found * words.to(found.dtype).sqrt())
        return (x + (y + found) * _HALF) * _HALF


class ConvolutionalDecoder(nn.Module):
    """A stack of blocks; each looks at the source."""

    def __init__(self, layers: int, shape: AttentionShape, kernel: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            ConvolutionalBlock(shape, kernel, dropout) for _ in range(layers)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        embedded: Tensor,
        lengths: Lengths,
        memory: Tensor,
        memory_lengths: Lengths,
        record: AttentionRecord | None = None,
    ) -> Tensor:
        """Embedded (N, D), memory (M, 2 D) -> (N, D)"""
        x = embedded
        for block in self.blocks:
            x = block(x, embedded, lengths, memory, memory_lengths, record)
        return self.dropout(x)

    def prepare(
        self, memory: Tensor, lengths: Lengths, beams: int
    ) -> tuple[list[Tensor], KeyValues]:
        """An empty window for each block, and the keys and values that all of them look at."""
        like = memory.new_zeros(len(lengths), beams, 0)
        blocks = self._blocks()
        windows = [block.gated.convolution.nothing_before(like) for block in blocks]
        return windows, blocks[0].attention.prepare(memory, lengths)

    def step(
        self, embedded: Tensor, windows: list[Tensor], memory: KeyValues, sources: Sources
    ) -> Tensor:
        """One new token a beam: embedded (B, W, D) -> (B, W, D)"""
        x = embedded
        for block, window in zip(self._blocks(), windows, strict=True):
            x = block.step(x, embedded, window, memory, sources)
        return x

    def _blocks(self) -> list[ConvolutionalBlock]:
        return list(self.blocks)  # type: ignore[arg-type]

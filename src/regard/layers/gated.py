"""Encoder and decoder of gated convolutions (ConvS2S).

The sum of two values of variance 1 has variance 2, so that every sum is scaled by sqrt(0.5).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cache import KVCache, SourceMask
from regard.attention.config import AttentionShape
from regard.attention.linear import Linear
from regard.attention.multihead import AttentionRecorder, UnprojectedCrossAttention
from regard.data.ragged import Lengths
from regard.layers.convolution import Convolution
from regard.layers.dropout import Dropout

_SQRT_HALF = 0.5**0.5


class GatedConvolution(nn.Module):
    """Gated linear unit `A sigmoid(B)` of two convolutions of x (Dauphin et al., 2017)."""

    def __init__(self, d_model: int, kernel_size: int, dropout: float, *, causal: bool) -> None:
        super().__init__()
        self.convolution = Convolution(d_model, 2 * d_model, causal=causal, kernel_size=kernel_size)
        self.dropout = Dropout(dropout)
        self._input_variance = (1.0 - dropout) / (kernel_size * d_model)

    def initialize(self) -> None:
        """Initialize so that the output variance is near 1: a GLU reduces a variance of 3 to 1.

        Gehring et al. use 4 instead of 3, assuming small inputs, for which all gates are near 0.5.
        """
        nn.init.normal_(self.convolution.weight.weight, std=(3.0 * self._input_variance) ** 0.5)

    def forward(self, x: Tensor, lengths: Lengths) -> Tensor:
        """X (N, D) -> (N, D)"""
        return F.glu(self.convolution(self.dropout(x), lengths))

    def step(self, x: Tensor, window: Tensor) -> Tensor:
        """One new token per beam: x (B, W, D), window (B, W, k - 1, D), updated -> (B, W, D)"""
        return F.glu(self.convolution.step(self.dropout(x), window))


class ConvolutionalEncoder(nn.Module):
    """A stack of `x + gated(x)`."""

    def __init__(self, num_layers: int, d_model: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            GatedConvolution(d_model, kernel_size, dropout, causal=False) for _ in range(num_layers)
        )

    def forward(
        self, x: Tensor, lengths: Lengths, recorder: AttentionRecorder | None = None
    ) -> Tensor:
        """X (N, D) -> keys and values of cross-attention, concatenated. (N, 2 D)"""
        keys = x
        for block in self.blocks:
            keys = (keys + block(keys, lengths)) * _SQRT_HALF
        return torch.cat([keys, (keys + x) * _SQRT_HALF], -1)


class PairedCrossAttention(UnprojectedCrossAttention):
    """Cross-attention to an encoder output that concatenates keys and values."""

    def keys_values(self, encoder_output: Tensor) -> list[Tensor]:
        """(M, 2 D) -> (M, 1, D) twice"""
        return [part.unsqueeze(-2) for part in encoder_output.chunk(2, -1)]


class ConvolutionalBlock(nn.Module):
    """A gated convolution and cross-attention.

        u = gated(x)
        c = sqrt(S) att((K, V), W_q u + e)
        x + (u + W_c c)

    e is the embedding of the input token, S the source length: the mean of S values has 1 / S of
    the variance of one value.
    """

    def __init__(self, shape: AttentionShape, kernel_size: int, dropout: float) -> None:
        super().__init__()
        self.gated = GatedConvolution(shape.d_model, kernel_size, dropout, causal=True)
        self.query = Linear(shape.d_model, shape.d_model)
        self.attention = PairedCrossAttention(shape)
        self.combine = Linear(shape.d_model, shape.d_model)

    def forward(
        self,
        x: Tensor,
        embedded: Tensor,
        lengths: Lengths,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """X (N, D), encoder_output (M, 2 D) -> (N, D)"""
        y = self.gated(x, lengths)
        query = self._query(y, embedded)
        context = self.attention(query, lengths, encoder_output, source_lengths, recorder)
        return self._sum(x, y, context, source_lengths.lengths[lengths.sentence, None])

    def step(
        self, x: Tensor, embedded: Tensor, window: Tensor, source: KVCache, source_mask: SourceMask
    ) -> Tensor:
        """One new token per beam: x (B, W, D) -> (B, W, D)"""
        y = self.gated.step(x, window)
        context = self.attention.step(self._query(y, embedded), source, source_mask)
        return self._sum(x, y, context, source_mask.lengths[:, None, None])

    def _query(self, y: Tensor, embedded: Tensor) -> Tensor:
        return (self.query(y) + embedded) * _SQRT_HALF

    def _sum(self, x: Tensor, y: Tensor, context: Tensor, source_lengths: Tensor) -> Tensor:
        context = self.combine(context * source_lengths.to(context.dtype).sqrt())
        return (x + (y + context) * _SQRT_HALF) * _SQRT_HALF


class ConvolutionalDecoder(nn.Module):
    """A stack of blocks with cross-attention in each."""

    def __init__(
        self, num_layers: int, shape: AttentionShape, kernel_size: int, dropout: float
    ) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            ConvolutionalBlock(shape, kernel_size, dropout) for _ in range(num_layers)
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        embedded: Tensor,
        lengths: Lengths,
        encoder_output: Tensor,
        source_lengths: Lengths,
        recorder: AttentionRecorder | None = None,
    ) -> Tensor:
        """Embedded (N, D), encoder_output (M, 2 D) -> (N, D)"""
        x = embedded
        for block in self.blocks:
            x = block(x, embedded, lengths, encoder_output, source_lengths, recorder)
        return self.dropout(x)

    def new_caches(
        self, encoder_output: Tensor, lengths: Lengths, beams: int
    ) -> tuple[list[Tensor], KVCache]:
        """The initial window of each block, and the keys and values that all blocks attend to."""
        like = encoder_output.new_zeros(len(lengths), beams, 0)
        blocks = self._blocks()
        windows = [block.gated.convolution.initial_state(like) for block in blocks]
        return windows, blocks[0].attention.new_cache(encoder_output, lengths)

    def step(
        self, embedded: Tensor, windows: list[Tensor], source: KVCache, source_mask: SourceMask
    ) -> Tensor:
        """One new token per beam: embedded (B, W, D) -> (B, W, D)"""
        x = embedded
        for block, window in zip(self._blocks(), windows, strict=True):
            x = block.step(x, embedded, window, source, source_mask)
        return x

    def _blocks(self) -> list[ConvolutionalBlock]:
        return list(self.blocks)  # type: ignore[arg-type]

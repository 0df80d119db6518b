"""Byte features of words: a convolution over the bytes of a word, and max pooling.

    features = max over positions i of relu(W (E[b_{i-2}], ..., E[b_{i+2}]))

They represent affixes, capitals and digits of unknown words (dos Santos and Zadrozny, 2014).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.byte_features import BYTE_VOCABULARY_SIZE
from regard.data.ragged import Ragged
from regard.layers.convolution import Convolution

_KERNEL = 5


class ByteCNN(nn.Module):
    """A convolutional encoder of words from their bytes."""

    def __init__(self, byte_dim: int, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(BYTE_VOCABULARY_SIZE, byte_dim)
        self.convolution = Convolution(byte_dim, d_model, causal=False, kernel_size=_KERNEL)

    def forward(self, words: Ragged) -> Tensor:
        """The bytes of W words -> (W, D)"""
        x = F.relu(self.convolution(self.table(words.tokens), words.lengths))
        features: Tensor = torch.segment_reduce(
            x.float(), "max", lengths=words.lengths.lengths, axis=0, initial=0, unsafe=True
        )
        return features

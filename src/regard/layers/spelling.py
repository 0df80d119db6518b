"""A vector for each word, from how it is spelled: a convolution over its bytes, and the maximum.

    spelled = max over places i of relu(W (E[b_{i-2}], ..., E[b_{i+2}]))

So a word that was never seen still has its endings, its capitals and its digits (dos Santos and
Zadrozny, 2014).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.ragged import Ragged
from regard.data.spelling import SIGNS
from regard.layers.convolution import Convolution

_KERNEL = 5


class Spelling(nn.Module):
    """Bytes of words to vectors of words."""

    def __init__(self, characters: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(SIGNS, characters)
        self.convolution = Convolution(characters, width, causal=False, kernel=_KERNEL)

    def forward(self, words: Ragged) -> Tensor:
        """The bytes of W words -> (W, D)"""
        found = F.relu(self.convolution(self.table(words.tokens), words.lengths))
        spelled: Tensor = torch.segment_reduce(
            found.float(), "max", lengths=words.lengths.lengths, axis=0, initial=0, unsafe=True
        )
        return spelled

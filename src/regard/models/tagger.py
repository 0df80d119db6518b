"""A tagger: a label for each word, from a stack that sees the whole sentence.

    hidden = Stack(E[start, subwords, end] + P)
    word_i = the first or last of its subwords' states, or their mean
    p(y_i | x) = softmax(W word_i + b)        each label by itself
    p(y | x) = CRF(W word + b)                with `crf`: all together (`layers/crf.py`)

With `feedforward=convolution` the stack is that of two convolutions of width 3 in each block, for
which a word's neighbours matter most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.multihead import AttentionRecord
from regard.config import Doc
from regard.data.ragged import Batch
from regard.layers.crf import Crf
from regard.layers.init import initialize
from regard.layers.pooling import Pooling, pool_words
from regard.models.labelling import LabelConfig, LabelModel, inner_places
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class TaggerConfig(LabelConfig):
    """The shape of a tagger."""

    objective = "tagged"
    kind: Annotated[Literal["tagger"], Doc("which model")] = "tagger"
    crf: Annotated[
        bool, Doc("choose the labels of a sentence together; spans are always well formed")
    ] = False
    pooling: Annotated[Pooling, Doc("what a word is made of: which of its subwords")] = "first"


class TaggerModel(LabelModel):
    """A stack, words made of its subwords, and scores of labels."""

    config: TaggerConfig

    def __init__(self, config: TaggerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        self.chain = Crf(vocabulary.labels) if config.crf else None
        initialize(self, config.init)

    def states(self, batch: Batch, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each word. (W, D)"""
        assert batch.words is not None
        subwords = self.read(batch.source, record)[inner_places(batch.source.lengths)]
        return pool_words(subwords, batch.words, self.config.pooling)

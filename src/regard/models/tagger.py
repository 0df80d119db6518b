"""A tagger: a label for each word, from a stack that sees the whole sentence.

    hidden = Stack(E[start, subwords, end] + P)        with `characters`: + how words are spelled
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
from regard.bounds import WIDTH, Ge
from regard.config import Doc
from regard.data.batch import Batch, TaggedBatch
from regard.layers.crf import Crf
from regard.layers.dropout import Dropout
from regard.layers.init import initialize
from regard.layers.pooling import Pooling, pool_words
from regard.layers.spelling import Spelling
from regard.models.labelling import LabelConfig, LabelModel, inner_places
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class TaggerConfig(LabelConfig):
    """The shape of a tagger."""

    task = "tagging"
    kind: Annotated[Literal["tagger"], Doc("which model")] = "tagger"
    crf: Annotated[
        bool, Doc("choose the labels of a sentence together; spans are always well formed")
    ] = False
    characters: Annotated[
        int,
        Doc("size of the vectors of bytes, of which a word's spelling is made; 0: none"),
        Ge(0),
        WIDTH,
    ] = 0
    pooling: Annotated[Pooling, Doc("what a word is made of: which of its subwords")] = "first"


class TaggerModel(LabelModel):
    """A stack, words made of its subwords, and scores of labels."""

    config: TaggerConfig

    def __init__(self, config: TaggerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        characters = config.characters
        self.spelling = Spelling(characters, config.width) if characters else None
        self.spelling_dropout = Dropout(config.dropout)
        self.chain = Crf(vocabulary.labels) if config.crf else None
        initialize(self, config.init)

    def states(self, batch: Batch, record: AttentionRecord | None = None) -> Tensor:
        """A vector for each word. (W, D)"""
        assert isinstance(batch, TaggedBatch)
        places = inner_places(batch.source.lengths)
        x = self.embedded(batch.source)
        if self.spelling is not None:  # added to each of a word's subwords
            assert batch.spelling is not None
            spelled = self.spelling_dropout(self.spelling(batch.spelling)).to(x.dtype)
            x = x.index_add(0, places, spelled[batch.words.sentence])
        subwords = self.encoder(x, batch.source.lengths, record)[places]
        return pool_words(subwords, batch.words, self.config.pooling)

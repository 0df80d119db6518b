"""A tagger: a label for each word of a sentence.

    hidden = Stack(E[BOS, subwords, EOS] + P)          with `char_embedding_dim`: + byte features
    word_i = the first, last or mean state of its subwords
    p(y_i | x) = softmax(W word_i + b)        independent labels
    p(y | x) = CRF(W word + b)                with `crf` (`layers/crf.py`)

With `ffn_type=convolution` the feed-forward networks are convolutions, which suit taggers: the
neighbours of a word matter most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from regard.attention.multihead import AttentionRecorder
from regard.bounds import WIDTH, Ge
from regard.config import Doc, Formerly
from regard.data.batch import Batch, TaggedBatch
from regard.layers.byte_cnn import ByteCNN
from regard.layers.crf import Crf
from regard.layers.dropout import Dropout
from regard.layers.init import initialize
from regard.layers.pooling import Pooling, pool_subwords
from regard.models.labelling import LabelConfig, LabelModel, inner_positions
from regard.models.protocol import Vocabulary


@dataclass(frozen=True)
class TaggerConfig(LabelConfig):
    """Settings of a tagger."""

    task = "tagging"
    kind: Annotated[Literal["tagger"], Doc("model architecture")] = "tagger"
    crf: Annotated[
        bool, Doc("conditional random field over the labels of a sentence; IOB spans are valid")
    ] = False
    char_embedding_dim: Annotated[
        int,
        Doc("dimension of byte embeddings, for byte features of words; 0 disables them"),
        Ge(0),
        WIDTH,
        Formerly("characters"),
    ] = 0
    pooling: Annotated[
        Pooling, Doc("representation of a word: its first, last or mean subword state")
    ] = "first"


class TaggerModel(LabelModel):
    """A tagger with optional byte features and CRF."""

    config: TaggerConfig

    def __init__(self, config: TaggerConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        byte_dim = config.char_embedding_dim
        self.spelling = ByteCNN(byte_dim, config.d_model) if byte_dim else None
        self.spelling_dropout = Dropout(config.dropout)
        self.chain = Crf(vocabulary.labels) if config.crf else None
        initialize(self, config.init)

    def states(self, batch: Batch, recorder: AttentionRecorder | None = None) -> Tensor:
        """The hidden state of each word. (W, D)"""
        assert isinstance(batch, TaggedBatch)
        positions = inner_positions(batch.source.lengths)
        x = self.embed(batch.source)
        if self.spelling is not None:  # byte features are added to all subwords of a word
            assert batch.word_bytes is not None
            features = self.spelling_dropout(self.spelling(batch.word_bytes)).to(x.dtype)
            x = x.index_add(0, positions, features[batch.words.sentence])
        subwords = self.encoder(x, batch.source.lengths, recorder)[positions]
        return pool_subwords(subwords, batch.words, self.config.pooling)

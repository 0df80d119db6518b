"""The sentence embedding pipeline: pooled hidden states of a model.

Texts have the special tokens that the model was trained with: BOS and EOS for a masked language
model, EOS for the encoder of a translation model, BOS for a causal language model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Unpack, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.layers.pooling import pool_subwords
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.protocol import TextEncoder
from regard.notices import Notice
from regard.pipelines.pipeline import Pipeline
from regard.pipelines.text_codecs import TruncatingCodec
from regard.pipelines.text_stream import StreamKeywords, StreamOptions, TextStream
from regard.pipelines.texts import check_each, checked_texts, refuse_single_text

MAX_TOKENS = 4096  # of a text, for models without a limit: time is quadratic in it
Pool = Literal["mean", "first", "last"]
Vectors = NDArray[np.float32]


class Embedder(Pipeline):
    """A trained model that embeds texts."""

    def __init__(self, path: Path, folder: ModelFolder, model: Model) -> None:
        super().__init__(path, folder, model)
        if not model.config.embeds_text:
            raise ConfigError(
                f"Embeddings are not supported for model kind {model.config.kind!r}. "
                "Use a masked, causal, permuted or transformer model."
            )
        self._reader = cast(TextEncoder, model)

    @property
    def longest(self) -> int:
        """The maximum number of tokens of a text, without special tokens."""
        return (self.model.max_length or MAX_TOKENS) - len(self._reader.with_special_tokens([]))

    def embed(
        self,
        texts: Sequence[str],
        *,
        pool: Pool = "mean",
        normalize: bool = True,
        batch_size: int | None = None,
        notice: Notice = lambda text: None,
    ) -> Vectors:
        """Embed each text: the mean, first or last of its hidden states. (texts, D)

        Longer texts are truncated to `longest` tokens, and `notice` is called with a message that
        numbers texts as lines.
        """
        texts = checked_texts(texts)
        vectors = self.result_stream(pool, batch_size, normalize=normalize).map(texts, notice)
        return (
            np.stack(vectors) if vectors else np.zeros((0, self.model.config.d_model), np.float32)
        )

    def embed_iterable(
        self,
        texts: Iterable[str],
        *,
        pool: Pool = "mean",
        normalize: bool = True,
        **keywords: Unpack[StreamKeywords],
    ) -> Iterator[Vectors]:
        """The embedding of each of any number of texts, in order. (D,)"""
        refuse_single_text(texts)
        options = StreamOptions(**keywords)
        stream = self.result_stream(pool, options.batch_size, normalize=normalize)
        return stream.iterate(check_each(texts), options)

    def result_stream(
        self, pool: Pool, batch_size: int | None, *, normalize: bool
    ) -> TextStream[str, list[int], Vectors, Vectors]:
        """From texts to their embeddings."""
        if pool not in get_args(Pool):
            raise ConfigError(f"Unknown pooling {pool!r}. Use {', '.join(get_args(Pool))}.")

        @torch.inference_mode()
        def embed_batch(chunk: list[list[int]]) -> list[Vectors]:
            rows = [self._reader.with_special_tokens(tokens) for tokens in chunk]
            text = Ragged.of(rows).to(self.model.device)
            vectors = pool_subwords(self._reader.hidden_states(text), text.lengths, pool)
            if normalize:
                vectors = torch.nn.functional.normalize(vectors)
            return list(vectors.float().cpu().numpy())

        codec = TruncatingCodec(self.folder.text, self.longest)
        return self.text_stream(codec, embed_batch, len, batch_size)

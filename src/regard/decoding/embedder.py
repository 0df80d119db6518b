"""The sentence embedding pipeline: pooled hidden states of a model.

Texts have the special tokens that the model was trained with: BOS and EOS for a masked language
model, EOS for the encoder of a translation model, BOS for a causal language model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import Ragged
from regard.decoding.backend import map_by_length
from regard.decoding.pipeline import Notice, Pipeline, checked_texts
from regard.errors import ConfigError
from regard.layers.pooling import pool_subwords
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.protocol import TextEncoder

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

    @torch.inference_mode()
    def embed(
        self,
        texts: Sequence[str],
        *,
        pool: Pool = "mean",
        normalize: bool = True,
        batch_size: int | None = None,
        notice: Notice = lambda text: None,
        first_line: int = 1,
    ) -> Vectors:
        """Embed each text: the mean, first or last of its hidden states. (texts, D)

        Longer texts are truncated to `longest` tokens, and `notice` is called with a message that
        numbers texts as lines, starting at `first_line`.
        """
        texts = checked_texts(texts)
        if pool not in get_args(Pool):
            raise ConfigError(f"Unknown pooling {pool!r}. Use {', '.join(get_args(Pool))}.")
        ids = self.folder.tokenizers.source.encode_all(texts)
        for number, tokens in enumerate(ids):
            if len(tokens) > self.longest:
                notice(
                    f"Line {first_line + number} has {len(tokens):,} tokens and is truncated to "
                    f"{self.longest:,}."
                )
        ids = [tokens[: self.longest] for tokens in ids]

        def embed_batch(chunk: list[list[int]]) -> list[Vectors]:
            rows = [self._reader.with_special_tokens(tokens) for tokens in chunk]
            text = Ragged.of(rows).to(self.model.device)
            vectors = pool_subwords(self._reader.hidden_states(text), text.lengths, pool)
            if normalize:
                vectors = torch.nn.functional.normalize(vectors)
            return list(vectors.float().cpu().numpy())

        vectors = map_by_length(ids, len, batch_size, embed_batch)
        return (
            np.stack(vectors) if vectors else np.zeros((0, self.model.config.d_model), np.float32)
        )

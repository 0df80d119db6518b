"""Text in, vectors out: what a model's stack makes of a text, as one vector for each.

A text is read as its model reads texts: a masked language model between its start and end marks, a
translator's encoder with its end mark, a causal language model after its start mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.ragged import Ragged
from regard.decoding.engine import by_length
from regard.decoding.pipeline import Notice, Pipeline, checked_texts
from regard.errors import ConfigError
from regard.layers.pooling import pool_words
from regard.models.base import Model
from regard.models.folder import ModelFolder
from regard.models.protocol import TextReader

MAX_TOKENS = 4096  # of a text, for a model that has no limit: time grows with their square
Pool = Literal["mean", "first", "last"]
Vectors = NDArray[np.float32]


class Embedder(Pipeline):
    """A trained model whose stack reads texts."""

    def __init__(self, path: Path, folder: ModelFolder, model: Model) -> None:
        super().__init__(path, folder, model)
        if not model.config.embeds_text:
            raise ConfigError(
                f"Model kind {model.config.kind!r} has no stack that reads a text by itself. "
                "Use a masked, causal, permuted or transformer model."
            )
        self._reader = cast(TextReader, model)

    @property
    def longest(self) -> int:
        """The tokens of a text that are read at most, BOS and EOS left out."""
        return (self.model.max_length or MAX_TOKENS) - len(self._reader.text_row([]))

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
        """A vector for each text, in their order: of all its tokens the mean, or one of them.

        Of a text that is too long, the first `longest` tokens are read, and `notice` is called; it
        counts texts as lines, from `first_line` on. (texts, D)
        """
        texts = checked_texts(texts)  # before anything else is looked at
        if pool not in get_args(Pool):
            raise ConfigError(f"There is no pool {pool!r}. Use {', '.join(get_args(Pool))}.")
        ids = self.folder.tokenizers.source.encode_all(texts)
        for number, tokens in enumerate(ids):
            if len(tokens) > self.longest:
                notice(
                    f"Line {first_line + number} has {len(tokens):,} tokens, of which the first "
                    f"{self.longest:,} are read."
                )
        ids = [tokens[: self.longest] for tokens in ids]

        def of(chunk: list[list[int]]) -> list[Vectors]:
            rows = [self._reader.text_row(tokens) for tokens in chunk]
            text = Ragged.of(rows).to(self.model.device)
            found = pool_words(self._reader.read(text), text.lengths, pool)
            if normalize:
                found = torch.nn.functional.normalize(found)
            return list(found.float().cpu().numpy())

        found = by_length(ids, len, batch_size, of)
        return np.stack(found) if found else np.zeros((0, self.model.config.width), np.float32)

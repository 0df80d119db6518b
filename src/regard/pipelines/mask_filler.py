"""The fill-mask pipeline: predictions for `[MASK]` by a masked language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Unpack

import torch

from regard.data.ragged import Ragged
from regard.errors import ConfigError
from regard.models.masked import Masked
from regard.notices import Notice
from regard.pipelines.mask_codec import FilledText, MaskCodec, TopTokens
from regard.pipelines.pipeline import Pipeline
from regard.pipelines.text_stream import StreamKeywords, StreamOptions, TextStream
from regard.pipelines.texts import check_each, checked_texts, refuse_single_text
from regard.text.special import SPECIAL


class MaskFiller(Pipeline):
    """A trained masked language model that fills masks in texts."""

    task = "masked_language_modeling"
    purpose = "fills in blanks", "bert-tiny"
    model: Masked

    def fill(
        self,
        texts: Sequence[str],
        *,
        top_k: int = 5,
        batch_size: int | None = None,
        notice: Notice = lambda text: None,
    ) -> list[FilledText]:
        """Predict the `top_k` most probable tokens for each mask, independently of each other.

        A text without a mask, or with more subwords than the model reads, is skipped; `notice` is
        called with a message that numbers texts as lines.
        """
        texts = checked_texts(texts)
        return self.result_stream(top_k, batch_size).map(texts, notice)

    def fill_iterable(
        self, texts: Iterable[str], *, top_k: int = 5, **keywords: Unpack[StreamKeywords]
    ) -> Iterator[FilledText]:
        """Fill the masks of any number of texts, in order."""
        refuse_single_text(texts)
        options = StreamOptions(**keywords)
        return self.result_stream(top_k, options.batch_size).iterate(check_each(texts), options)

    def result_stream(
        self, top_k: int, batch_size: int | None
    ) -> TextStream[str, list[int], list[TopTokens], FilledText]:
        """From texts to their predictions."""
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}, but must be at least 1.")
        config = self.model.config
        codec = MaskCodec(self.folder.text, config.mask_id, config.max_positions - 2)
        return self.text_stream(codec, lambda rows: self._predict(rows, top_k), len, batch_size)

    @torch.inference_mode()
    def _predict(self, rows: list[list[int]], top_k: int) -> list[list[TopTokens]]:
        """The predictions for each mask of each row."""
        text = Ragged.of([*map(self.model.with_special_tokens, rows)]).to(self.model.device)
        positions = (text.tokens == self.model.config.mask_id).nonzero().squeeze(1)
        hidden = self.model.head(self.model.hidden_states(text)[positions])
        logits = self.model.projection(hidden).float()
        logits[:, : SPECIAL.eos + 1] = -torch.inf  # never predict special tokens
        probabilities = logits.softmax(-1)
        best = probabilities.topk(min(top_k, logits.shape[1]), dim=1)
        result: list[list[TopTokens]] = [[] for _ in rows]
        sentences = text.lengths.sentence[positions].tolist()
        for row, *pair in zip(sentences, best.indices.tolist(), best.values.tolist(), strict=True):
            result[row].append((pair[0], pair[1]))
        return result

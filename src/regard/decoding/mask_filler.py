"""The fill-mask pipeline: predictions for `[MASK]` by a masked language model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Unpack

import torch

from regard.data.model_text import ModelText
from regard.data.ragged import Ragged
from regard.decoding.pipeline import Pipeline
from regard.decoding.text_stream import Remarked, StreamKeywords, StreamOptions, TextStream
from regard.decoding.texts import check_each, checked_texts, refuse_single_text
from regard.errors import ConfigError
from regard.models.masked import Masked
from regard.notices import Notice
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

MASK = "[MASK]"
_PLACEHOLDER = "\ue000"  # a private-use character, which texts do not contain


@dataclass(frozen=True)
class MaskPrediction:
    """A token for a mask, and its probability."""

    word: str
    probability: float


@dataclass(frozen=True)
class FilledText:
    """A text and the predictions for each of its masks, best first; empty if it was skipped."""

    text: str
    blanks: list[list[MaskPrediction]] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The text with the best prediction for each mask."""
        if not self.blanks:
            return self.text
        text, *rest = self.text.split(MASK)
        for predictions, part in zip(self.blanks, rest, strict=True):
            text += predictions[0].word + part
        return text


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
        return self._stream(top_k, batch_size).map(texts, notice)

    def fill_iterable(
        self, texts: Iterable[str], *, top_k: int = 5, **keywords: Unpack[StreamKeywords]
    ) -> Iterator[FilledText]:
        """Fill the masks of any number of texts, in order."""
        refuse_single_text(texts)
        options = StreamOptions(**keywords)
        return self._stream(top_k, options.batch_size).iterate(check_each(texts), options)

    def _stream(
        self, top_k: int, batch_size: int | None
    ) -> TextStream[str, list[int], list[_TopTokens], FilledText]:
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}, but must be at least 1.")
        config = self.model.config
        codec = _MaskCodec(self.folder.text, config.mask_id, config.max_positions - 2)
        return self.text_stream(codec, lambda rows: self._predict(rows, top_k), len, batch_size)

    @torch.inference_mode()
    def _predict(self, rows: list[list[int]], top_k: int) -> list[list[_TopTokens]]:
        """The predictions for each mask of each row."""
        text = Ragged.of([*map(self.model.with_special_tokens, rows)]).to(self.model.device)
        positions = (text.tokens == self.model.config.mask_id).nonzero().squeeze(1)
        hidden = self.model.head(self.model.hidden_states(text)[positions])
        logits = self.model.projection(hidden).float()
        logits[:, : SPECIAL.eos + 1] = -torch.inf  # never predict special tokens
        probabilities = logits.softmax(-1)
        best = probabilities.topk(min(top_k, logits.shape[1]), dim=1)
        result: list[list[_TopTokens]] = [[] for _ in rows]
        sentences = text.lengths.sentence[positions].tolist()
        for row, *pair in zip(sentences, best.indices.tolist(), best.values.tolist(), strict=True):
            result[row].append((pair[0], pair[1]))
        return result


_TopTokens = tuple[list[int], list[float]]  # ids and probabilities for a mask, best first


@dataclass(frozen=True)
class _MaskCodec:
    """Encodes texts with masks, and converts predicted ids to words."""

    text: ModelText
    mask: int
    limit: int  # subwords of a text

    def encode(self, texts: Sequence[str]) -> tuple[list[list[int]], list[tuple[str, str]]]:
        """The ids of texts that can be filled; each text, and why it is skipped."""
        tokenizer = self.text.tokenizers.target
        texts = [*map(self._normalize_masks, texts)]
        ids = [encode_with_masks(tokenizer, text, self.mask) for text in texts]
        remarks = [*map(self._remark, ids)]
        items = [row for row, remark in zip(ids, remarks, strict=True) if not remark]
        return items, [*zip(texts, remarks, strict=True)]

    def _remark(self, ids: list[int]) -> str:
        """Why a text is skipped."""
        if self.mask not in ids:
            return f"has no {MASK} and is skipped. Write {MASK} for a missing word."
        if len(ids) > self.limit:
            return (
                f"has {len(ids)} subwords, but the maximum of this model is {self.limit}, so it is "
                "skipped. Shorten it."
            )
        return ""

    def _normalize_masks(self, text: str) -> str:
        """The text with the mask token of an imported tokenizer replaced by [MASK]."""
        tokenizer = self.text.tokenizers.target
        if not tokenizer.config.is_imported:
            return text
        return text.replace(tokenizer.ids_to_tokens([self.mask])[0], MASK)

    def decode(
        self,
        items: Sequence[list[int]],
        context: list[tuple[str, str]],
        outputs: Sequence[list[_TopTokens]],
    ) -> list[Remarked[FilledText]]:
        """Each text with its predictions, or with a remark."""
        remaining = iter(outputs)
        return [
            Remarked(FilledText(text), remark)
            if remark
            else Remarked(FilledText(text, [*map(self._predictions, next(remaining))]))
            for text, remark in context
        ]

    def _predictions(self, top: _TopTokens) -> list[MaskPrediction]:
        tokenizer = self.text.tokenizers.target
        return [
            MaskPrediction(display_token(tokenizer, token), probability)
            for token, probability in zip(*top, strict=True)
        ]


def encode_with_masks(tokenizer: Tokenizer, text: str, mask: int) -> list[int]:
    """The ids of a text; a mask and the space before it are encoded as the mask token."""
    if tokenizer.config.is_imported:  # the tokenizer recognizes its mask token
        return tokenizer.encode_lines(text.replace(MASK, tokenizer.ids_to_tokens([mask])[0]))
    placeholder = tokenizer.encode_lines(_PLACEHOLDER)
    space_length = len(placeholder) - 3  # byte fallback encodes the character as three bytes
    ids: list[int] = []
    for i in tokenizer.encode_lines(text.replace(MASK, _PLACEHOLDER)):
        ids.append(i)
        if ids[-3:] == placeholder[space_length:]:
            size = len(placeholder) if ids[-len(placeholder) :] == placeholder else 3
            ids[-size:] = [mask]
    return ids


def display_token(tokenizer: Tokenizer, token: int) -> str:
    """A token for display, without the space before it."""
    if token == tokenizer.line_break:
        return "\n"
    if tokenizer.config.is_imported:
        return tokenizer.decode([token]).strip()
    return tokenizer.ids_to_tokens([token])[0].replace("▁", " ").strip() or "▁"

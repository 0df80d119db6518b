"""Texts with masks: their codec, and predictions for the masks; does not import PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.data.model_text import ModelText
from regard.pipelines.text_stream import Remarked
from regard.text.base import Tokenizer

MASK = "[MASK]"
_PLACEHOLDER = "\ue000"  # a private-use character, which texts do not contain
TopTokens = tuple[list[int], list[float]]  # ids and probabilities for a mask, best first


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


@dataclass(frozen=True)
class MaskCodec:
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
        outputs: Sequence[list[TopTokens]],
    ) -> list[Remarked[FilledText]]:
        """Each text with its predictions, or with a remark."""
        remaining = iter(outputs)
        return [
            Remarked(FilledText(text), remark)
            if remark
            else Remarked(FilledText(text, [*map(self._predictions, next(remaining))]))
            for text, remark in context
        ]

    def _predictions(self, top: TopTokens) -> list[MaskPrediction]:
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

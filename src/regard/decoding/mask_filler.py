"""The fill-mask pipeline: predictions for `[MASK]` by a masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from regard.data.ragged import Ragged
from regard.decoding.backend import map_by_length
from regard.decoding.pipeline import Notice, Pipeline, checked_texts
from regard.errors import ConfigError
from regard.models.masked import Masked
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
        first_line: int = 1,
    ) -> list[FilledText]:
        """Predict the `top_k` most probable tokens for each mask, independently of each other.

        A text without a mask, or with more subwords than the model reads, is skipped; `notice` is
        called with a message that numbers texts as lines, starting at `first_line`.
        """
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}, but must be at least 1.")
        texts = [self._normalize_masks(text) for text in checked_texts(texts)]
        limit = self.model.config.max_positions - 2
        rows: dict[int, list[int]] = {}
        for number, text in enumerate(texts):
            ids = encode_with_masks(self.folder.tokenizers.target, text, self.model.config.mask_id)
            line = f"Line {first_line + number}"
            if self.model.config.mask_id not in ids:
                notice(f"{line} has no {MASK} and is skipped. Write {MASK} for a missing word.")
            elif len(ids) > limit:
                notice(
                    f"{line} has {len(ids)} subwords, but the maximum of this model is {limit}, "
                    "so it is skipped. Shorten it."
                )
            else:
                rows[number] = self.model.with_special_tokens(ids)
        predictions = map_by_length(
            list(rows.values()), len, batch_size, lambda chunk: self._predict(chunk, top_k)
        )
        blanks = dict(zip(rows, predictions, strict=True))
        return [FilledText(text, blanks.get(number, [])) for number, text in enumerate(texts)]

    def _normalize_masks(self, text: str) -> str:
        """The text with the mask token of an imported tokenizer replaced by [MASK]."""
        tokenizer = self.folder.tokenizers.target
        if not tokenizer.config.is_imported:
            return text
        return text.replace(tokenizer.ids_to_tokens([self.model.config.mask_id])[0], MASK)

    @torch.inference_mode()
    def _predict(self, rows: list[list[int]], top_k: int) -> list[list[list[MaskPrediction]]]:
        """The predictions for each mask of each row."""
        text = Ragged.of(rows).to(self.model.device)
        positions = (text.tokens == self.model.config.mask_id).nonzero().squeeze(1)
        hidden = self.model.head(self.model.hidden_states(text)[positions])
        logits = self.model.projection(hidden).float()
        logits[:, : SPECIAL.eos + 1] = -torch.inf  # never predict special tokens
        probabilities = logits.softmax(-1)
        best = probabilities.topk(min(top_k, logits.shape[1]), dim=1)
        tokenizer = self.folder.tokenizers.target
        result: list[list[list[MaskPrediction]]] = [[] for _ in rows]
        sentences = text.lengths.sentence[positions].tolist()
        for row, *pair in zip(sentences, best.indices.tolist(), best.values.tolist(), strict=True):
            result[row].append(
                [
                    MaskPrediction(display_token(tokenizer, token), value)
                    for token, value in zip(*pair, strict=True)
                ]
            )
        return result


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

"""A text with blanks in, the likeliest words for them out: a masked model and its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from regard.data.ragged import Ragged
from regard.decoding.engine import by_length
from regard.decoding.pipeline import Notice, Pipeline, checked_texts
from regard.errors import ConfigError
from regard.models.masked import Masked
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

BLANK = "[MASK]"
_PLACEHOLDER = "\ue000"  # a character that means nothing, so that no text has it


@dataclass(frozen=True)
class Guess:
    """A word for a blank, and how likely it is."""

    word: str
    probability: float


@dataclass(frozen=True)
class Filled:
    """A text, and the guesses for each of its blanks, best first; none if it was not read."""

    text: str
    blanks: list[list[Guess]] = field(default_factory=list)

    @property
    def best(self) -> str:
        """The text with the best guess in each blank."""
        if not self.blanks:
            return self.text
        whole, *rest = self.text.split(BLANK)
        for guesses, part in zip(self.blanks, rest, strict=True):
            whole += guesses[0].word + part
        return whole


class MaskFiller(Pipeline):
    """A trained masked language model, ready for text."""

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
    ) -> list[Filled]:
        """Guesses for each blank of each text; each is made as if it were the only blank.

        A text without a blank, or of more subwords than the model reads, has no guesses. `notice`
        is told of it; it counts texts as lines, from `first_line` on.
        """
        if top_k < 1:
            raise ConfigError(f"top_k is {top_k}, and must be at least 1.")
        texts = [self._with_blanks(text) for text in checked_texts(texts)]
        most = self.model.config.max_positions - 2
        rows: dict[int, list[int]] = {}
        for number, text in enumerate(texts):
            ids = ids_with_blanks(self.folder.tokenizers.target, text, self.model.config.mask_id)
            line = f"Line {first_line + number} has"
            left = "and is left as it is"
            if self.model.config.mask_id not in ids:
                notice(f"{line} no blank {left}. Write {BLANK} where a word is missing.")
            elif len(ids) > most:
                reads = f"this model reads {most} at once"
                notice(f"{line} {len(ids)} subwords {left}: {reads}. Shorten it.")
            else:
                rows[number] = self.model.text_row(ids)
        found = by_length(
            list(rows.values()), len, batch_size, lambda chunk: self._guesses(chunk, top_k)
        )
        blanks = dict(zip(rows, found, strict=True))
        return [Filled(text, blanks.get(number, [])) for number, text in enumerate(texts)]

    def _with_blanks(self, text: str) -> str:
        """A text in which the mask of an imported tokenizer stands for a blank, too."""
        tokenizer = self.folder.tokenizers.target
        if not tokenizer.config.is_foreign:
            return text
        return text.replace(tokenizer.pieces([self.model.config.mask_id])[0], BLANK)

    @torch.inference_mode()
    def _guesses(self, rows: list[list[int]], top_k: int) -> list[list[list[Guess]]]:
        """Of each row and blank."""
        text = Ragged.of(rows).to(self.model.device)
        places = (text.tokens == self.model.config.mask_id).nonzero().squeeze(1)
        logits = self.model.projection(self.model.head(self.model.read(text)[places])).float()
        logits[:, : SPECIAL.end + 1] = -torch.inf  # marks are no words
        probabilities = logits.softmax(-1)
        best = probabilities.topk(min(top_k, logits.shape[1]), dim=1)
        tokenizer = self.folder.tokenizers.target
        guesses = [
            [Guess(shown(tokenizer, word), value) for word, value in zip(*pair, strict=True)]
            for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        found: list[list[list[Guess]]] = [[] for _ in rows]
        for row, one in zip(text.lengths.sentence[places].tolist(), guesses, strict=True):
            found[row].append(one)
        return found


def ids_with_blanks(tokenizer: Tokenizer, text: str, mask: int) -> list[int]:
    """The ids of a text, a blank being one id, with the space before it."""
    if tokenizer.config.is_foreign:  # whose mask is a piece, found wherever its name stands
        return tokenizer.encode_lines(text.replace(BLANK, tokenizer.pieces([mask])[0]))
    alone = tokenizer.encode_lines(_PLACEHOLDER)
    space, unknown = alone[:-3], alone[-3:]  # which is spelled in its three bytes
    found: list[int] = []
    for i in tokenizer.encode_lines(text.replace(BLANK, _PLACEHOLDER)):
        found.append(i)
        if found[-3:] == unknown:
            size = len(alone) if found[-len(alone) :] == [*space, *unknown] else 3
            found[-size:] = [mask]
    return found


def shown(tokenizer: Tokenizer, word: int) -> str:
    """A subword as people read it."""
    if word == tokenizer.line_break:
        return "\n"
    if tokenizer.config.is_foreign:
        return tokenizer.decode([word]).strip()
    return tokenizer.pieces([word])[0].replace("▁", " ").strip() or "▁"

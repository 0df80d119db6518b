"""Words hidden from a masked language model: which, and what stands in their place.

BERT hides 15 % of all tokens. Of these, 80 % become the mask, 10 % another word, and 10 % stay as
they are, so that the model cannot trust what it reads (Devlin et al., 2019, arXiv:1810.04805).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.bounds import Ge, Le
from regard.config import Doc, Settings
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

Ids = NDArray[np.int64]
_MARKS = 4  # the first ids, which are no words


@dataclass(frozen=True)
class MaskingConfig(Settings):
    """What is hidden from a masked language model."""

    share: Annotated[float, Doc("masked: share of words that it has to find"), Ge(0.01), Le(1)] = (
        0.15
    )
    masked: Annotated[float, Doc("of these, the share that becomes a mask"), Ge(0), Le(1)] = 0.8
    replaced: Annotated[
        float, Doc("and the share that becomes another word; the rest stays"), Ge(0), Le(1)
    ] = 0.1
    whole_words: Annotated[bool, Doc("hide all subwords of a word, or single subwords")] = False
    dynamic: Annotated[
        bool, Doc("hide others in each epoch (RoBERTa), or the same (BERT's first recipe)")
    ] = True

    def problems(self) -> Iterator[str]:
        """Shares of a whole."""
        if self.masked + self.replaced > 1:
            yield f"masked {self.masked} and replaced {self.replaced} are shares, and exceed 1"


class Masker:
    """Hides words of rows of ids."""

    def __init__(self, tokenizer: Tokenizer, config: MaskingConfig, mask: int) -> None:
        begins = np.array(tokenizer.word_begins())
        begins[tokenizer.line_break] = True
        self._begins = begins
        self._after_break = tokenizer.line_break
        self._config = config
        self._mask = mask
        self.dynamic = config.dynamic

    def hide(self, ids: Ids, generator: np.random.Generator) -> tuple[Ids, Ids]:
        """What is read, and what should be found: the hidden ids, and padding elsewhere.

        Marks are never hidden; something always is, where there is something beside marks.
        """
        hidden = self._hidden(ids, generator)
        fate = generator.random(len(ids))
        words = generator.integers(_MARKS, len(self._begins), size=len(ids))
        config = self._config
        read = np.where(hidden & (fate < config.masked), self._mask, ids)
        other = hidden & (fate >= config.masked) & (fate < config.masked + config.replaced)
        return np.where(other, words, read), np.where(hidden, ids, SPECIAL.pad)

    def _hidden(self, ids: Ids, generator: np.random.Generator) -> NDArray[np.bool_]:
        marks = ids < _MARKS
        unit = np.arange(len(ids))
        if self._config.whole_words:
            after = np.roll(marks | (ids == self._after_break), 1)
            unit = np.cumsum(self._begins[ids] | marks | after) - 1
            unit -= unit[0]
        drawn = generator.random(len(ids))[unit]
        drawn[marks] = 1.0
        hidden: NDArray[np.bool_] = drawn < self._config.share
        if not hidden.any() and not marks.all():
            hidden = drawn == drawn.min()
        return hidden

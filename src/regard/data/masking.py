"""Token masking for masked language models.

BERT selects 15 % of all tokens for prediction. Of these, 80 % are replaced by MASK, 10 % by a
random token, and 10 % are unchanged (Devlin et al., 2019, arXiv:1810.04805).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from regard.bounds import Ge, Le
from regard.config import Doc, Formerly, Settings
from regard.text.base import Tokenizer
from regard.text.special import SPECIAL

Ids = NDArray[np.int64]
_SPECIAL_TOKENS = 4  # the first ids


@dataclass(frozen=True)
class MaskingConfig(Settings):
    """Masking for masked language modeling."""

    probability: Annotated[
        float, Doc("masked: fraction of tokens to predict"), Ge(0.01), Le(1), Formerly("share")
    ] = 0.15
    mask_fraction: Annotated[
        float,
        Doc("fraction of predicted tokens replaced by MASK"),
        Ge(0),
        Le(1),
        Formerly("masked"),
    ] = 0.8
    random_fraction: Annotated[
        float,
        Doc("fraction of predicted tokens replaced by a random token; the rest is unchanged"),
        Ge(0),
        Le(1),
        Formerly("replaced"),
    ] = 0.1
    whole_words: Annotated[bool, Doc("whole-word masking")] = False
    dynamic: Annotated[bool, Doc("dynamic masking: different masks in each epoch (RoBERTa)")] = True

    def problems(self) -> Iterator[str]:
        """Fractions must not exceed 1 in total."""
        if self.mask_fraction + self.random_fraction > 1:
            yield (
                f"mask_fraction is {self.mask_fraction} and random_fraction "
                f"{self.random_fraction}, but their sum must be at most 1"
            )


class Masker:
    """Masks tokens of rows of ids."""

    def __init__(self, tokenizer: Tokenizer, config: MaskingConfig, mask: int) -> None:
        word_starts = np.array(tokenizer.word_starts())
        word_starts[tokenizer.line_break] = True
        self._word_starts = word_starts
        self._line_break = tokenizer.line_break
        self._config = config
        self._mask = mask
        self.dynamic = config.dynamic

    def mask_tokens(self, ids: Ids, generator: np.random.Generator) -> tuple[Ids, Ids]:
        """Masked inputs, and labels: the original ids of masked tokens, and PAD elsewhere.

        Special tokens are never masked; at least one other token is, if there is one.
        """
        masked = self._select(ids, generator)
        choice = generator.random(len(ids))
        random_tokens = generator.integers(_SPECIAL_TOKENS, len(self._word_starts), size=len(ids))
        config = self._config
        inputs = np.where(masked & (choice < config.mask_fraction), self._mask, ids)
        randomized = (
            masked
            & (choice >= config.mask_fraction)
            & (choice < config.mask_fraction + config.random_fraction)
        )
        labels = np.where(masked, ids, SPECIAL.pad)
        return np.where(randomized, random_tokens, inputs), labels

    def _select(self, ids: Ids, generator: np.random.Generator) -> NDArray[np.bool_]:
        """Which tokens are predicted, as a mask."""
        special = ids < _SPECIAL_TOKENS
        unit = np.arange(len(ids))
        if self._config.whole_words:
            after = np.roll(special | (ids == self._line_break), 1)
            unit = np.cumsum(self._word_starts[ids] | special | after) - 1
            unit -= unit[0]
        random = generator.random(len(ids))[unit]
        random[special] = 1.0
        selected: NDArray[np.bool_] = random < self._config.probability
        if not selected.any() and not special.all():
            selected = random == random.min()
        return selected

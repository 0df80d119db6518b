"""Forbidden words: text that no translation contains, as banned token sequences.

A word is banned in every segmentation, after a space and in the given spelling; in Chinese and
Japanese, which have no spaces, anywhere. Longer words that begin with it are banned as well, unless
a token extends over its end: "Hund" also bans "▁Hund" "e", but not "▁Hunde". Other spellings and
inflected forms must be given as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from regard.decoding.config import SearchConfig
from regard.decoding.modes import SEARCH
from regard.errors import ConfigError
from regard.pipelines.texts import checked_texts
from regard.text.base import Tokenizer
from regard.text.segmentations import segmentations

_WITHOUT_SPACES = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]")  # Chinese, Japanese


def forbid_words(
    config: SearchConfig, words: Sequence[str], tokenizer: Tokenizer, mode: str
) -> SearchConfig:
    """The settings of a search in this decoding mode that generates none of the words."""
    largest = max((max(ids) for ids in config.banned_sequences), default=0)
    if largest >= tokenizer.vocab_size:
        raise ConfigError(
            f"banned_sequences has the token id {largest}, but the target vocabulary has "
            f"{tokenizer.vocab_size} tokens. Use ids of this model's target tokenizer."
        )
    if not words:
        return config
    if mode not in SEARCH | {"sampling"}:
        raise ConfigError(
            f"forbid (--forbid) has no effect in {mode}; it is for beam search, greedy search and "
            "sampling. Leave it out."
        )
    if not all(word.strip() for word in words):
        raise ConfigError("A forbidden word (--forbid) is empty. Give a word, or leave it out.")
    banned = [*config.banned_sequences]
    for word in checked_texts(words, "Forbidden word"):
        banned += map(tuple, segmentations(word.strip(), tokenizer))
        if _WITHOUT_SPACES.match(word.strip()):
            banned += map(tuple, segmentations(word.strip(), tokenizer, inside=True))
    return replace(config, banned_sequences=tuple(dict.fromkeys(banned)))

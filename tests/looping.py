"""Models that repeat tokens, and what guards forbid."""

from __future__ import annotations

from collections.abc import Sequence

from regard.decoding.config import SearchConfig
from regard.models.transformer import Transformer
from regard.text.special import SPECIAL
from toys import small_transformer


def looping_model(seed: int = 3) -> Transformer:
    """A model that repeats tokens, generates EOS now and then, and no other special tokens."""
    model = small_transformer(seed=seed, output_bias=True)
    assert model.projection.bias is not None
    model.projection.bias.data[SPECIAL.eos] += 1.5
    for token in (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos):
        model.projection.bias.data[token] = -30
    return model


def repeats_ngram(tokens: Sequence[int], size: int) -> bool:
    """Whether an n-gram occurs twice."""
    ngrams = [tuple(tokens[start : start + size]) for start in range(len(tokens) - size + 1)]
    return any(ngrams.count(ngram) > 1 for ngram in ngrams)


def includes(tokens: Sequence[int], part: Sequence[int]) -> bool:
    """Whether a sequence contains another."""
    starts = range(len(tokens) - len(part) + 1)
    return any([*tokens[start : start + len(part)]] == [*part] for start in starts)


def violates(tokens: Sequence[int], source: Sequence[int], config: SearchConfig) -> bool:
    """Whether a hypothesis breaks a restriction of the settings."""
    size = config.no_repeat_ngram_size
    return (
        (size > 0 and repeats_ngram(tokens, size))
        or any(includes(tokens, sequence) for sequence in config.banned_sequences)
        or len(tokens) < config.minimum(len(source) + 1, 1000)
    )

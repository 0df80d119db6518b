"""One entry to all searches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from regard.data.ragged import Ragged
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis, best_first
from regard.decoding.rules import Rules
from regard.decoding.sample import sampler
from regard.decoding.steps import Pace
from regard.models.protocol import Autoregressive, S


def search(
    model: Autoregressive[S],
    source: Ragged,
    config: SearchConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    max_length: int | None = None,
    pace: Pace | None = None,
) -> list[list[Hypothesis]]:
    """`top_beams` hypotheses for each source sentence, best first."""
    lengths = source.lengths.lengths.tolist()
    limits = [_limit(length, config, max_length) for length in lengths]
    rules = Rules.of(limits, prefixes, source.tokens.device, config.min_length)
    if config.sample:
        return _samples(model, source, rules, config)
    penalty = config.length_penalty
    if config.beam_size == 1:
        found = greedy_search(
            model, source, rules, length_penalty=penalty, scored=config.scores, pace=pace
        )
        return [[hypothesis] for hypothesis in found]
    return beam_search(
        model,
        source,
        rules,
        beam_size=config.beam_size,
        top_beams=config.top_beams,
        length_penalty=penalty,
        pace=pace,
    )


def _limit(source_length: int, config: SearchConfig, max_length: int | None) -> int:
    limit = max(int(source_length * config.max_ratio) + config.max_extra, config.min_length + 1)
    return limit if max_length is None else min(limit, max_length)


def _samples(
    model: Autoregressive[S], source: Ragged, rules: Rules, config: SearchConfig
) -> list[list[Hypothesis]]:
    rounds = []
    for number in range(config.top_beams):
        choose = sampler(
            [_generator(config.seed, number, ids) for ids in _sentences(source)],
            temperature=config.temperature,
            top_k=config.top_k,
            top_p=config.top_p,
        )
        rounds.append(
            greedy_search(model, source, rules, length_penalty=config.length_penalty, choose=choose)
        )
    return [best_first(found) for found in zip(*rounds, strict=True)]


def _sentences(source: Ragged) -> list[list[int]]:
    return [part.tolist() for part in source.tokens.split(source.lengths.lengths.tolist())]


def _generator(seed: int, number: int, ids: list[int]) -> np.random.Generator:
    """Keyed by the sentence itself: the same in any batch, order or file."""
    digest = hashlib.sha256(np.asarray(ids, dtype=np.int64).tobytes()).digest()
    return np.random.default_rng([seed, number, int.from_bytes(digest[:8], "little")])

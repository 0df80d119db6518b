"""One entry to all searches that write word by word, and one to these and all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from regard.data.ragged import Ragged
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.greedy import greedy_search
from regard.decoding.hypothesis import Hypothesis, best_first
from regard.decoding.parallel import parallel_search
from regard.decoding.rules import Rules
from regard.decoding.sample import keyed_generator, sampler
from regard.decoding.steps import Pace
from regard.models.base import AutoregressiveModel, Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Autoregressive, S


def search_with(model: Model, source: Ragged, config: SearchConfig) -> list[list[Hypothesis]]:
    """By a search that suits the model: token by token, or all tokens at once."""
    if not model.config.autoregressive:
        return parallel_search(cast(NonAutoregressive, model), source, config)
    writer = cast(AutoregressiveModel, model)
    return search(writer, source, config, max_length=model.max_length)


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
    limits = [config.limit(length, max_length) for length in lengths]
    rules = Rules.of(
        limits, prefixes, source.tokens.device, config.minimum, at_limit=config.at_limit
    )
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
        enough=config.enough,
        pace=pace,
    )


def _samples(
    model: Autoregressive[S], source: Ragged, rules: Rules, config: SearchConfig
) -> list[list[Hypothesis]]:
    rounds = []
    for number in range(config.top_beams):
        choose = sampler(
            [keyed_generator(config.seed, number, ids) for ids in _sentences(source)],
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

"""One entry to all searches that write word by word, and one to these and all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from regard.data.ragged import Ragged
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Hypothesis, best_first
from regard.decoding.greedy import greedy_search, keyed_generator, sampler
from regard.decoding.parallel import parallel_search
from regard.decoding.rules import Rules
from regard.decoding.steps import EagerRunner
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
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """`top_beams` hypotheses for each source sentence, best first."""
    lengths = source.lengths.lengths.tolist()
    limits = [config.limit(length, max_length) for length in lengths]
    rules = Rules.of(
        limits, prefixes, source.tokens.device, config.minimum, at_limit=config.at_limit
    )
    if config.sample:
        return _samples(model, source, rules, config, runner)
    penalty = config.length_penalty
    if config.beam_size == 1:
        found = greedy_search(
            model, source, rules, length_penalty=penalty, scored=config.scores, runner=runner
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
        runner=runner,
    )


def _samples(
    model: Autoregressive[S],
    source: Ragged,
    rules: Rules,
    config: SearchConfig,
    runner: EagerRunner | None,
) -> list[list[Hypothesis]]:
    penalty, rounds = config.length_penalty, []
    sentences = source.tokens.split(source.lengths.lengths.tolist())
    for number in range(config.top_beams):
        draws = [keyed_generator(config.seed, number, ids.tolist()) for ids in sentences]
        choose = sampler(draws, config)
        rounds.append(
            greedy_search(
                model, source, rules, length_penalty=penalty, choose=choose, runner=runner
            )
        )
    return [best_first(found) for found in zip(*rounds, strict=True)]

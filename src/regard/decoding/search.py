"""Entry points of decoding: `search` for autoregressive models, `decode_batch` for any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from regard.data.ragged import Ragged
from regard.decoding.backend import ContextLengths, Hypothesis, sort_by_score
from regard.decoding.beam import beam_search
from regard.decoding.config import SearchConfig
from regard.decoding.constrained_beam import constrained_beam_search
from regard.decoding.constraints import DecodingConstraints
from regard.decoding.diverse_beam import diverse_beam_search
from regard.decoding.greedy import greedy_search, make_sampler, sentence_generator
from regard.decoding.lexical_constraints import LexicalConfig
from regard.decoding.nonautoregressive import nonautoregressive_search
from regard.decoding.penalties import PenaltyConfig
from regard.decoding.runners import EagerRunner
from regard.models.base import AutoregressiveModel, Model
from regard.models.nonautoregressive import NonAutoregressive
from regard.models.protocol import Autoregressive, S


def decode_batch(
    model: Model,
    source: Ragged,
    config: SearchConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    contexts: Sequence[ContextLengths] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses per source sentence, by the search that suits the model.

    Prefixes and context (see `search`) are for autoregressive models.
    """
    if not model.config.autoregressive:
        return nonautoregressive_search(cast(NonAutoregressive, model), source, config)
    decoder, limit = cast(AutoregressiveModel, model), model.max_length
    return search(decoder, source, config, prefixes=prefixes, contexts=contexts, max_length=limit)


def search(
    model: Autoregressive[S],
    source: Ragged,
    config: SearchConfig,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    contexts: Sequence[ContextLengths] | None = None,
    max_length: int | None = None,
    lexical: LexicalConfig | None = None,
    runner: EagerRunner | None = None,
) -> list[list[Hypothesis]]:
    """`num_hypotheses` hypotheses per source sentence, best first.

    With lexical constraints, greedy search is beam search with one beam, and there may be fewer
    hypotheses, or none. `contexts` are the lengths of the context that sources and prefixes begin
    with; hypotheses do not include it.
    """
    lengths = source.lengths.lengths.tolist()
    contexts = contexts or [ContextLengths()] * len(lengths)
    lengths = [length - context.source for length, context in zip(lengths, contexts, strict=True)]
    offsets = [context.target for context in contexts]
    limits = [
        config.limit(length, max_length, offset)
        for length, offset in zip(lengths, offsets, strict=True)
    ]
    constraints = DecodingConstraints.of(
        limits,
        prefixes,
        source.tokens.device,
        config.effective_min_length,
        at_limit=config.at_limit,
        contexts=offsets,
    )
    minimums = [
        offset + config.minimum(length, limit - offset)
        for length, limit, offset in zip(lengths, limits, offsets, strict=True)
    ]
    penalties = PenaltyConfig.of(config, minimums)
    hypotheses = _search(model, source, constraints, config, penalties, lexical, runner)
    return [
        [each._replace(tokens=each.tokens[offset:]) for each in nbest] if offset else nbest
        for nbest, offset in zip(hypotheses, offsets, strict=True)
    ]


def _search(
    model: Autoregressive[S],
    source: Ragged,
    constraints: DecodingConstraints,
    config: SearchConfig,
    penalties: PenaltyConfig | None,
    lexical: LexicalConfig | None,
    runner: EagerRunner | None,
) -> list[list[Hypothesis]]:
    """The hypotheses by the search that the settings select; they include context."""
    if config.sample:
        return _sample(model, source, constraints, config, penalties, runner)
    penalty = config.length_penalty
    if lexical is not None:
        return constrained_beam_search(
            model, source, constraints, lexical, config, penalties=penalties, runner=runner
        )
    if config.beam_groups > 1:
        return diverse_beam_search(
            model, source, constraints, config, penalties=penalties, runner=runner
        )
    if config.beam_size == 1:
        hypotheses = greedy_search(
            model,
            source,
            constraints,
            length_penalty=penalty,
            scored=config.scores,
            penalties=penalties,
            runner=runner,
        )
        return [[hypothesis] for hypothesis in hypotheses]
    return beam_search(
        model,
        source,
        constraints,
        beam_size=config.beam_size,
        num_hypotheses=config.num_hypotheses,
        length_penalty=penalty,
        max_finished=config.max_finished,
        penalties=penalties,
        runner=runner,
    )


def _sample(
    model: Autoregressive[S],
    source: Ragged,
    constraints: DecodingConstraints,
    config: SearchConfig,
    penalties: PenaltyConfig | None,
    runner: EagerRunner | None,
) -> list[list[Hypothesis]]:
    samples = []
    sentences = source.tokens.split(source.lengths.lengths.tolist())
    for number in range(config.num_hypotheses):
        generators = [sentence_generator(config.seed, number, ids.tolist()) for ids in sentences]
        choose = make_sampler(generators, config)
        samples.append(
            greedy_search(
                model,
                source,
                constraints,
                length_penalty=config.length_penalty,
                choose=choose,
                penalties=penalties,
                runner=runner,
            )
        )
    return [sort_by_score(hypotheses) for hypotheses in zip(*samples, strict=True)]

"""The stream from pairs of texts to their scores."""

from __future__ import annotations

from collections.abc import Sequence

from regard.backends.torch_backend import common_max_length
from regard.config import build
from regard.data.batch import Batch
from regard.data.model_text import ModelText
from regard.data.pairs import context_batch, with_eos
from regard.decoding.backend import DEFAULT_BATCH_SIZE
from regard.decoding.runtime import default_window
from regard.decoding.score import score_pairs
from regard.decoding.text_config import InputConfig
from regard.models.base import Model
from regard.pipelines.context import TextPair, context_of_texts
from regard.pipelines.directions import select_direction
from regard.pipelines.text_codecs import PairCodec, PairItem
from regard.pipelines.text_constraints import annotated_terms
from regard.pipelines.text_search import ScoreTextKeywords
from regard.pipelines.text_stream import TextStream, model_stage


def pair_codec(text: ModelText, models: Sequence[Model], keywords: ScoreTextKeywords) -> PairCodec:
    """The codec of pairs with these settings."""
    settings = {name: value for name, value in keywords.items() if name != "glossary"}
    config = build(InputConfig, settings)
    direction = select_direction(text, config)
    limit, longest = direction.statistics.longest_source, common_max_length(models)
    if longest is not None:
        limit = min(limit, longest - 1)
    return PairCodec(
        text,
        direction,
        annotated_terms(keywords.get("glossary"), text),
        context_of_texts(text, config).within(longest),
        limit,
    )


def score_stream(
    models: Sequence[Model], codec: PairCodec, length_penalty: float, batch_size: int | None
) -> TextStream[tuple[str, str] | TextPair, PairItem, float, float]:
    """From pairs of source and target to their scores."""
    device = models[0].device

    def score_batch(items: list[PairItem]) -> list[float]:
        return score_pairs(models, _batch(items).to(device), length_penalty=length_penalty)

    stage = model_stage(
        score_batch,
        lambda item: len(item.source) + len(item.target),
        batch_size or DEFAULT_BATCH_SIZE,
    )
    return TextStream(codec, stage, default_window(device))


def _batch(items: Sequence[PairItem]) -> Batch:
    sources, targets, contexts = zip(*items, strict=True)
    source, target = with_eos(sources), with_eos(targets)
    return context_batch(source, target, contexts) if any(contexts) else Batch(source, target)

"""The stream from pairs of texts to their scores."""

from __future__ import annotations

from collections.abc import Sequence

from regard.config import build
from regard.data.batch import Batch
from regard.data.model_text import ModelText
from regard.data.pairs import with_eos
from regard.decoding.backend import DEFAULT_BATCH_SIZE, IdPair
from regard.decoding.runtime import default_window
from regard.decoding.score import score_pairs
from regard.decoding.text_config import DirectionConfig
from regard.models.base import Model
from regard.pipelines.directions import select_direction
from regard.pipelines.text_codecs import PairCodec
from regard.pipelines.text_constraints import annotated_terms
from regard.pipelines.text_search import ScoreTextKeywords
from regard.pipelines.text_stream import TextStream, model_stage


def pair_codec(text: ModelText, keywords: ScoreTextKeywords) -> PairCodec:
    """The codec of pairs with these settings."""
    settings = {name: value for name, value in keywords.items() if name != "glossary"}
    direction = select_direction(text, build(DirectionConfig, settings))
    return PairCodec(text, direction, annotated_terms(keywords.get("glossary"), text))


def score_stream(
    models: Sequence[Model], codec: PairCodec, length_penalty: float, batch_size: int | None
) -> TextStream[tuple[str, str], IdPair, float, float]:
    """From pairs of source and target to their scores."""
    device = models[0].device

    def score_batch(pairs: list[IdPair]) -> list[float]:
        source, target = (with_eos(side) for side in zip(*pairs, strict=True))
        batch = Batch(source, target).to(device)
        return score_pairs(models, batch, length_penalty=length_penalty)

    stage = model_stage(
        score_batch, lambda pair: len(pair[0]) + len(pair[1]), batch_size or DEFAULT_BATCH_SIZE
    )
    return TextStream(codec, stage, default_window(device))

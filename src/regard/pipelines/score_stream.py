"""The stream from pairs of texts to their scores."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.batch import Batch
from regard.data.model_text import ModelText
from regard.data.pairs import with_eos
from regard.decoding.backend import DEFAULT_BATCH_SIZE, IdPair
from regard.decoding.runtime import default_window
from regard.decoding.score import score_pairs
from regard.models.base import Model
from regard.pipelines.text_codecs import PairCodec
from regard.pipelines.text_stream import TextStream, model_stage


def score_stream(
    models: Sequence[Model],
    text: ModelText,
    length_penalty: float,
    batch_size: int | None,
    tag: str = "",
) -> TextStream[tuple[str, str], IdPair, float, float]:
    """From pairs of source and target to their scores; `tag` is added to each source."""
    device = models[0].device

    def score_batch(pairs: list[IdPair]) -> list[float]:
        source, target = (with_eos(side) for side in zip(*pairs, strict=True))
        batch = Batch(source, target).to(device)
        return score_pairs(models, batch, length_penalty=length_penalty)

    stage = model_stage(
        score_batch, lambda pair: len(pair[0]) + len(pair[1]), batch_size or DEFAULT_BATCH_SIZE
    )
    return TextStream(PairCodec(text, tag), stage, default_window(device))

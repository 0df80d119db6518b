"""Predictions of models that do not translate, in shared batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.pipelines.label_codecs import Classified, Tagged
from regard.pipelines.mask_codec import MASK, FilledText
from regard.pipelines.text_codecs import Generation
from regard.pipelines.texts import checked_texts
from regard.serving.api_errors import ApiError
from regard.serving.models import ServedModel

LANGUAGE_MODELS = ("language_modeling",)
MASKED_MODELS = ("masked_language_modeling",)


async def fill(model: ServedModel, texts: Sequence[str], top_k: int) -> list[FilledText]:
    """The most probable tokens for each mask; raises an ApiError for a text without a mask."""
    stream = model.pipeline.result_stream(top_k, None)
    filled: list[FilledText] = await model.run(stream, ("fill", top_k), checked_texts(texts))
    for number, each in enumerate(filled, 1):
        if not each.blanks:
            raise ApiError(
                400,
                f"Text {number} has no {MASK}, or is longer than the model reads. Write {MASK} "
                "for a missing word, and shorten long texts.",
            )
    return filled


async def tag(model: ServedModel, sentences: Sequence[str]) -> list[Tagged]:
    """The labels of the words of each sentence, which are separated by spaces."""
    words = [sentence.split() for sentence in checked_texts(sentences)]
    tagged: list[Tagged] = await model.run(model.pipeline.result_stream(None), "tag", words)
    return tagged


async def classify(model: ServedModel, texts: Sequence[str]) -> list[Classified]:
    """The label of each text; columns of a text are separated by tabs."""
    columns = [text.split("\t") for text in checked_texts(texts)]
    examples = [*model.pipeline.checked_examples(columns)]
    stream = model.pipeline.result_stream(None)
    classified: list[Classified] = await model.run(stream, "classify", examples)
    return classified


async def embed(
    model: ServedModel, texts: Sequence[str], pool: str, *, normalize: bool
) -> list[list[float]]:
    """The embedding of each text."""
    embedder = await model.in_thread(lambda: model.embedder)
    stream: Any = embedder.result_stream(pool, None, normalize=normalize)  # type: ignore[arg-type]
    vectors = await model.run(stream, ("embed", pool, normalize), checked_texts(texts))
    return [vector.tolist() for vector in vectors]


async def generate(
    model: ServedModel, prompts: Sequence[str], max_tokens: int, keywords: Mapping[str, Any]
) -> list[Generation]:
    """The continuations of each prompt."""
    prompts = checked_texts(prompts, "Prompt")
    stream = model.pipeline.result_stream(max_tokens, {**keywords}, None, len(prompts))
    group = ("generate", max_tokens, *sorted(keywords.items()))
    generations: list[Generation] = await model.run(stream, group, prompts)
    return generations

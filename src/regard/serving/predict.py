"""Predictions of models that do not translate, in shared batches."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.decoding.backend import Hypothesis
from regard.pipelines.label_codecs import Classified, Tagged
from regard.pipelines.mask_codec import MASK, FilledText
from regard.pipelines.text_codecs import Generation, PromptCodec
from regard.pipelines.text_stream import Remarked
from regard.pipelines.texts import checked_texts
from regard.serving.api_errors import ApiError
from regard.serving.models import ServedModel

_LOWEST_TEMPERATURE = 0.01


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


@dataclass(frozen=True)
class Completion:
    """A continuation of a prompt."""

    text: str
    tokens: int
    is_cut: bool  # at the maximum number of tokens, or at the end of the context


@dataclass(frozen=True)
class Completions:
    """A prompt and its continuations, best first."""

    prompt_tokens: int
    choices: list[Completion]


@dataclass(frozen=True)
class _CountingCodec:
    """A codec of prompts that also counts tokens."""

    codec: PromptCodec
    max_tokens: int
    context: int

    def encode(self, prompts: Sequence[str]) -> tuple[list[list[int]], Any]:
        """The token ids of each prompt."""
        return self.codec.encode(prompts)

    def decode(
        self, items: Sequence[list[int]], prompts: Any, outputs: Sequence[list[Hypothesis]]
    ) -> list[Remarked[Completions]]:
        """The continuations of each prompt."""
        decoded = self.codec.decode(items, prompts, outputs)
        return [
            Remarked(Completions(len(ids), [*self._completions(ids, hypotheses, each.result)]))
            for ids, hypotheses, each in zip(items, outputs, decoded, strict=True)
        ]

    def _completions(
        self, ids: list[int], hypotheses: Sequence[Hypothesis], generation: Generation
    ) -> Iterator[Completion]:
        for hypothesis, each in zip(hypotheses, generation.continuations, strict=True):
            has_prompt = self.codec.start is None  # hypotheses then begin with the prompt
            count = len(hypothesis.tokens) - (len(ids) if has_prompt else 0)
            is_cut = count >= self.max_tokens or len(ids) + count + 1 >= self.context
            yield Completion(each.text, count, is_cut)


async def complete(
    model: ServedModel, prompts: Sequence[str], max_tokens: int, keywords: Mapping[str, Any]
) -> list[Completions]:
    """The continuations of each prompt."""
    prompts = checked_texts(prompts, "Prompt")
    generator = model.pipeline
    stream = generator.result_stream(max_tokens, {**keywords}, None, len(prompts))
    counting = replace(stream, codec=_CountingCodec(stream.codec, max_tokens, generator.context))
    group = ("generate", max_tokens, *sorted(keywords.items()))
    return await model.run(counting, group, prompts)


class _StoppedError(Exception):
    """The caller has stopped reading the text."""


async def stream_text(
    model: ServedModel, prompt: str, max_tokens: int, keywords: Mapping[str, Any]
) -> AsyncIterator[str]:
    """The continuation of a prompt, piece by piece; ends early if the caller stops."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str | None] = asyncio.Queue()
    stopped = threading.Event()

    def on_text(text: str) -> None:
        if stopped.is_set():
            raise _StoppedError
        model.let_batches_run()
        loop.call_soon_threadsafe(queue.put_nowait, text)

    (prompt,) = checked_texts([prompt], "Prompt")
    generate = model.pipeline.stream
    running = asyncio.ensure_future(
        model.in_thread(generate, prompt, on_text, max_tokens=max_tokens, **keywords)
    )
    running.add_done_callback(lambda future: queue.put_nowait(None))
    try:
        while (text := await queue.get()) is not None:
            if text:
                yield text
        await running
    finally:
        stopped.set()
        if not running.done():
            running.add_done_callback(lambda future: future.cancelled() or future.exception())


def sampling_keywords(
    temperature: float | None, top_p: float | None, seed: int | None
) -> dict[str, Any]:
    """Settings of sampling; a temperature of 0 is greedy search. Without a seed, a random one."""
    if temperature is not None and temperature < _LOWEST_TEMPERATURE:
        return {"beam_size": 1}
    keywords: dict[str, Any] = {"sample": True, "seed": secrets.randbelow(2**31)}
    given = {"temperature": temperature, "top_p": top_p, "seed": seed}
    return keywords | {name: value for name, value in given.items() if value is not None}


def cut_at_stop(text: str, stop: Sequence[str]) -> tuple[str, bool]:
    """The text before the first of some words, and whether it has one."""
    places = [place for word in stop if word and (place := text.find(word)) >= 0]
    return (text[: min(places)], True) if places else (text, False)

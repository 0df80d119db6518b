"""A served model: its pipeline, its queue, and what it answers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from regard.data.directions import Direction
from regard.data.glossary import Glossary
from regard.data.model_text import CONFIG, config_folder
from regard.decoding.text_config import TextConfigKeywords
from regard.errors import ConfigError
from regard.exchange.ctranslate2_files import ctranslate2_folder
from regard.models.folder import ModelFolder
from regard.pipelines.context import Source
from regard.pipelines.embedder import Embedder
from regard.pipelines.segments import TranslatedText
from regard.pipelines.text_search import TextSearch, unchanged
from regard.pipelines.text_stream import TextStream
from regard.serving.batcher import Batcher, OnOutput
from regard.training.metrics_log import METRICS

R = TypeVar("R")
_INLINE_CHARACTERS = 2000  # texts with fewer are encoded without another thread
_CACHED_SEARCHES = 256
# Settings of text that do not change what a batch computes.
_PER_TEXT = {"source_lang", "target_lang", "zero_shot", "forbid", "ignore_tags", "markup"}
Signature = tuple[tuple[int, int, int], ...]


def folder_signature(path: Path) -> Signature:
    """What changes when the files of a model folder are replaced; not its metrics log."""
    folders = {config_folder(path), path, ctranslate2_folder(path) or path}
    files = sorted(file for folder in folders for file in folder.iterdir() if file.is_file())
    stats = [os.stat(file) for file in files if not file.name.startswith((".", METRICS))]
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


class ServedModel:
    """A loaded model with its queue."""

    def __init__(
        self,
        name: str,
        path: Path,
        folder: ModelFolder,
        pipeline: Any,
        batcher: Batcher,
        threads: int,
        device_lock: threading.Lock | None = None,
    ) -> None:
        self.name, self.path, self.folder, self.pipeline = name, path, folder, pipeline
        self.batcher, self.device_lock = batcher, device_lock
        self.signature = folder_signature(path)
        self.created = int(os.stat(config_folder(path) / CONFIG).st_mtime)
        self._searches: OrderedDict[Hashable, TextSearch] = OrderedDict()
        # For what is not batched: attention maps, scores, texts that are streamed by token.
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"model-{name}")

    @property
    def task(self) -> str:
        """The task of the model, such as "translation"."""
        return self.folder.config.task

    @property
    def translates(self) -> bool:
        """Whether the model translates."""
        return self.folder.config.translates

    @cached_property
    def directions(self) -> list[Direction]:
        """The directions of translation; empty if the languages are unknown."""
        if self.folder.directions:
            return [each.direction for each in self.folder.directions]
        source, target = (self.folder.languages[side] for side in ("source", "target"))
        return [Direction(source, target)] if source and target and self.translates else []

    @cached_property
    def embedder(self) -> Embedder:
        """The embeddings of the same model."""
        model = self.pipeline.models[0] if self.translates else self.pipeline.model
        return Embedder(self.path, self.folder, model)

    async def in_thread(self, function: Callable[..., R], *arguments: Any, **keywords: Any) -> R:
        """Run what is not batched in a thread; on a GPU, when no batch runs."""

        def call() -> R:
            with self.device_lock or nullcontext():
                return function(*arguments, **keywords)

        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def let_batches_run(self) -> None:
        """Between two steps of a long computation: let others use the GPU."""
        if self.device_lock is not None:
            self.device_lock.release()
            self.device_lock.acquire()

    async def run(
        self,
        stream: TextStream[Any, Any, Any, R],
        group: Hashable,
        inputs: Sequence[Any],
        *,
        on_encoded: Callable[[Any], OnOutput] | None = None,
    ) -> list[R]:
        """The results of inputs; items of equal groups share batches.

        `on_encoded` gets the context of the codec, and returns a function that is called with each
        output as soon as it is there.
        """
        is_small = sum(map(_size, inputs)) <= _INLINE_CHARACTERS
        items, context = await self._call(is_small, stream.codec.encode, inputs)
        on_output = None if on_encoded is None else on_encoded(context)
        job = self.batcher.submit(group, stream.stage, items, on_output)
        outputs = await asyncio.wrap_future(job.future)
        results = await self._call(is_small, stream.codec.decode, items, context, outputs)
        return [result for result, _ in results]

    async def _call(self, is_small: bool, function: Callable[..., R], *arguments: Any) -> R:
        return function(*arguments) if is_small else await asyncio.to_thread(function, *arguments)

    async def translate(
        self,
        texts: Sequence[str],
        keywords: Mapping[str, Any],
        glossary: Glossary | None = None,
        *,
        prefix: str = "",
        on_encoded: Callable[[Any], OnOutput] | None = None,
    ) -> list[TranslatedText]:
        """Translate texts; `keywords` are those of `Translator.translate`."""
        search = self.search(keywords, glossary)
        settings = [
            (name, value if name != "markup" else True)
            for name, value in sorted(keywords.items())
            if name in TextConfigKeywords.__annotations__ and name not in _PER_TEXT - {"markup"}
        ]
        group = (search.config, (*settings,), search.constraints is not None)
        sources = [Source(text, prefix) for text in texts]
        return await self.run(search.stream(unchanged), group, sources, on_encoded=on_encoded)

    def search(self, keywords: Mapping[str, Any], glossary: Glossary | None) -> TextSearch:
        """The search with these settings; raises a ConfigError for bad settings.

        Those without a glossary are cached; glossaries may be large.
        """
        keywords = self._without_target_context(keywords)
        if glossary is not None:
            given = {**keywords, "glossary": glossary}
            return self.pipeline.text_search(given, None, None, lambda text: None)
        key = (*sorted(keywords.items()),)
        search = self._searches.pop(key, None)
        if search is None:
            search = self.pipeline.text_search(dict(keywords), None, None, lambda text: None)
        self._searches[key] = search  # as the most recent
        if len(self._searches) > _CACHED_SEARCHES:
            self._searches.popitem(last=False)
        return search

    def _without_target_context(self, keywords: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings without document context if it needs the translations before a sentence.

        Items of a batch are translated at the same time, not one after the other.
        """
        if not self.pipeline.text.document_context.target:
            return keywords
        if keywords.get("document_context"):
            raise ConfigError(
                "document_context is not available here: the model has context of target "
                "sentences, and the server translates sentences in parallel. Use `regard "
                "translate`."
            )
        return {**keywords, "document_context": False}

    def refuse_other_task(self, *tasks: str) -> None:
        """Raise a ConfigError unless the model has one of these tasks."""
        if self.task not in tasks:
            raise ConfigError(
                f"{self.name} is a model for {self.task.replace('_', ' ')}, which this request is "
                "not for. Choose another model."
            )

    def close(self) -> None:
        """Finish the jobs in the queue, then end the threads."""
        self.batcher.close()
        self._pool.shutdown(wait=False)


def _size(value: Any) -> int:
    """The number of characters of an input: a text, or texts."""
    return len(value) if isinstance(value, str) else sum(map(_size, value))

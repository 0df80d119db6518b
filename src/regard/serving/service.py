"""What all APIs use: the models, the limits, and the errors of a running server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import Request

from regard.data.directions import Direction
from regard.data.glossary import Glossary
from regard.pipelines.markup import Markup
from regard.pipelines.segments import TranslatedText
from regard.serving.api_errors import ApiError
from regard.serving.coalescing import Coalescing
from regard.serving.config import LimitConfig, ServerConfig
from regard.serving.documents import FORMATS, DocumentStore, TextTranslation, patiently
from regard.serving.gate import RequestContext, authorize
from regard.serving.glossaries import GlossaryStore
from regard.serving.keys import Keys
from regard.serving.metrics import Metrics
from regard.serving.models import ServedModel
from regard.serving.registry import Registry

_GRACE = 15.0  # seconds for which the work of a client of DeepL goes on after it has hung up


@dataclass
class Service:
    """A running server."""

    config: ServerConfig
    limits: LimitConfig
    registry: Registry
    metrics: Metrics
    keys: Keys | None
    state: Path  # folder for glossaries and documents
    is_draining: bool = False
    streams: asyncio.Semaphore = field(init=False)
    glossaries: GlossaryStore = field(init=False)
    documents: DocumentStore = field(init=False)
    coalescing: Coalescing = field(default_factory=lambda: Coalescing(_GRACE))

    def __post_init__(self) -> None:
        limits = self.limits
        self.streams = asyncio.Semaphore(limits.max_streams)
        self.glossaries = GlossaryStore(
            self.state / "glossaries", limits.max_glossaries, limits.max_body
        )
        self.documents = DocumentStore(
            self.state / "documents", limits.max_documents, limits.document_deadline
        )

    def authorize(self, key: str | None, request: Request) -> None:
        """Check a key from the body of a request, if keys are required."""
        authorize(self.keys, key, context_of(request))

    def count(self, request: Request, texts: Sequence[str]) -> None:
        """Check texts against the limits, and count them; raises an ApiError."""
        limits = self.limits
        if len(texts) > limits.max_texts:
            raise ApiError(
                413, f"Too many texts: {len(texts):,}. At most {limits.max_texts:,} are allowed."
            )
        characters = sum(map(len, texts))
        if characters > limits.max_characters:
            raise ApiError(
                413,
                f"The texts have {characters:,} characters. At most "
                f"{limits.max_characters:,} are allowed.",
            )
        context_of(request).count([*texts], self.metrics)

    def count_document(self, request: Request, characters: int) -> None:
        """Check the size of a document against the limits, and count it."""
        limit = self.limits.max_document_characters
        if characters > limit:
            message = f"The document has {characters:,} characters. At most {limit:,} are allowed."
            raise ApiError(413, message)
        context_of(request).count_characters(characters, self.metrics)

    def find(self, request: Request, name: str | None, *tasks: str) -> ServedModel:
        """The model that a request names, or the first with one of these tasks."""
        if name:
            model = self.registry.by_name(name)
            if model is None:
                known = ", ".join(self.registry.models)
                raise ApiError(404, f"There is no model {name!r}. Served are {known}.", "model")
            if tasks and model.task not in tasks:
                model.refuse_other_task(*tasks)
        else:
            models = self.registry.of_task(*tasks) if tasks else [*self.registry.models.values()]
            if not models:
                raise ApiError(404, f"No model for {tasks[0].replace('_', ' ')} is served.")
            model = models[0]
        context_of(request).model = model.name
        return model

    async def translate(
        self,
        request: Request,
        model: ServedModel,
        texts: Sequence[str],
        keywords: Mapping[str, Any],
        glossary: Glossary | None = None,
        **more: Any,
    ) -> list[TranslatedText]:
        """Translate the texts of a request."""
        context_of(request).model = model.name
        return await model.translate(texts, keywords, glossary, **more)

    async def translate_direction(
        self,
        request: Request,
        direction: Direction,
        texts: Sequence[str],
        keywords: Mapping[str, Any],
        glossary: Glossary | None = None,
    ) -> list[TranslatedText]:
        """Translate texts by the model of a direction; n-best lists where it has them."""
        model = self.registry.directions[direction]
        languages = {"source_lang": direction.source, "target_lang": direction.target}
        if not model.folder.config.autoregressive:
            beams = ("num_hypotheses", "beam_size")
            keywords = {name: value for name, value in keywords.items() if name not in beams}
        return await self.translate(request, model, texts, {**keywords, **languages}, glossary)

    def text_translation(
        self, request: Request, direction: Direction, glossary: Glossary | None = None
    ) -> TextTranslation:
        """How the texts of a document are translated; they wait while the queue is full."""

        async def translate(texts: Sequence[str], markup: Markup | None) -> list[str]:
            keywords = {} if markup is None else {"markup": markup}

            async def attempt() -> list[str]:
                translated = await self.translate_direction(
                    request, direction, texts, keywords, glossary
                )
                return [each.ranked[0].text for each in translated]

            return await patiently(attempt, self.limits.document_deadline)

        return TextTranslation(translate, direction.target)

    def without_paths(self, message: str) -> str:
        """A message with the names of models in place of their paths on this machine."""
        for name, path in self.registry.paths.items():
            message = message.replace(str(path), name)
        return message

    @property
    def document_formats(self) -> tuple[str, ...]:
        """The endings of names of files that can be translated."""
        return FORMATS


def context_of(request: Request) -> RequestContext:
    """What the gate stored with a request."""
    context: RequestContext = request.state.context
    return context


def service_of(request: Request) -> Service:
    """The server that a request was sent to."""
    service: Service = request.app.state.service
    return service

"""Our own API: translation with all settings, scores, attention maps, predictions, models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, fields
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from regard.config import build
from regard.data.glossary import Glossary
from regard.decoding.attention_maps import (
    AttentionMaps,
    pair_attention_maps,
    text_attention_maps,
)
from regard.decoding.text_config import DirectionConfig, TextConfig
from regard.errors import ConfigError, RegardError
from regard.json_text import dumps
from regard.models.base import TRANSLATION_TASKS
from regard.pipelines.directions import select_direction
from regard.pipelines.segments import TranslatedText
from regard.pipelines.text_search import Alternative, Translation
from regard.serving import predict
from regard.serving.api_errors import ApiError, error_body
from regard.serving.cards import model_card, model_item
from regard.serving.models import ServedModel
from regard.serving.search_options import given_keywords, refuse_expensive
from regard.serving.service import service_of
from regard.serving.sse import STREAMS, event, event_stream
from regard.serving.v1_schemas import (
    AttentionAnswer,
    AttentionRequest,
    ErrorAnswer,
    LabelRequest,
    ModelCard,
    ModelList,
    NextAnswer,
    NextRequest,
    PredictAnswer,
    ScoreAnswer,
    ScoreRequest,
    TranslateAnswer,
    TranslateRequest,
)
from regard.text.tags import add_tag

# Characters, tokens and weights of attention maps that are returned.
_MAX_ATTENTION, _MAX_TOKENS, _MAX_WEIGHTS = 2000, 256, 5_000_000
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 404, 408, 413, 429, 500)
}
router = APIRouter(prefix="/v1", responses=ERRORS, tags=["regard"])
_NOT_SEARCH = {"texts", "model", "glossary", "prefix", "attention", "stream"}


@router.post("/translate", response_model=TranslateAnswer, responses=STREAMS)
async def translate(request: Request, query: TranslateRequest) -> Any:
    """Translate texts; with `stream`, the answer is a stream of server-sent events.

    The event `segment` has the translation of one sentence as soon as it is ready, and the event
    `done` the same as the answer without `stream`.
    """
    service = service_of(request)
    keywords = given_keywords(query, without=_NOT_SEARCH)
    refuse_expensive(keywords, service.limits)
    glossary = None if query.glossary is None else Glossary.of(query.glossary)
    service.count(request, query.texts)
    if query.attention and sum(map(len, query.texts)) > _MAX_ATTENTION:
        raise ApiError(413, f"Attention maps are for up to {_MAX_ATTENTION:,} characters.")
    model = _translator(request, query.model, keywords)
    run = _Translate(request, model, query, keywords, glossary)
    if query.stream:
        model.search(keywords, glossary)  # raises an error before the answer begins
        return event_stream(run.events())
    return _json(await run.answer())


class _Translate:
    """A request for translations."""

    def __init__(
        self,
        request: Request,
        model: ServedModel,
        query: Any,
        keywords: dict[str, Any],
        glossary: Glossary | None,
    ) -> None:
        self._request, self._model, self._query = request, model, query
        self._keywords, self._glossary = keywords, glossary
        options = {name: keywords[name] for name in ("mbr", "mbr_samples") if name in keywords}
        self._score_type = TextConfig(**options).score_type

    async def answer(self, **more: Any) -> dict[str, Any]:
        """The translations of all texts."""
        translated = await service_of(self._request).translate(
            self._request,
            self._model,
            self._query.texts,
            self._keywords,
            self._glossary,
            prefix=self._query.prefix,
            **more,
        )
        results = [await self._result(text) for text in translated]
        return {
            "model": self._model.name,
            "score_type": self._score_type,
            "translations": results,
        }

    async def _result(self, translated: TranslatedText) -> dict[str, Any]:
        maps = None
        if self._query.attention:
            pairs = zip(*translated.pairs, strict=True) if translated.pairs else ()
            _refuse_long(*(sum(map(len, ids)) for ids in pairs))
            attention_maps = self._model.pipeline.attention_maps
            maps = await self._model.in_thread(attention_maps, translated)
        return translation_result(Translation.of(translated, maps))

    async def events(self) -> AsyncIterator[str]:
        """The segments as they are ready, then the answer."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        target = self._model.folder.tokenizers.target

        def on_encoded(context: list[Any]) -> Any:
            places = [
                (number, segment)
                for number, encoded in enumerate(context)
                for segment in range(_segment_count(encoded))
            ]

            def on_output(index: int, hypotheses: list[Any]) -> None:
                text, segment = places[index]
                best = target.decode(hypotheses[0].tokens) if hypotheses else ""
                data = {"text": text, "segment": segment, "translation": best}
                loop.call_soon_threadsafe(queue.put_nowait, data)

            return on_output

        task = asyncio.create_task(self.answer(on_encoded=on_encoded))
        task.add_done_callback(lambda task: queue.put_nowait(None))
        try:
            while (data := await queue.get()) is not None:
                yield event(data, "segment")
            yield event(await task, "done")
        except (RegardError, ApiError) as error:
            yield event(self._error_data(error), "error")
        finally:
            task.cancel()

    def _error_data(self, error: Exception) -> dict[str, Any]:
        if isinstance(error, ApiError):
            return error_body("v1", error)
        message = service_of(self._request).without_paths(str(error))
        return error_body("v1", ApiError(400, message))


def _segment_count(encoded: Any) -> int:
    """The number of segments of a text that are translated."""
    if encoded.segments is None:
        return 1
    return sum(bool(part.text) for part in encoded.segments.parts)


def translation_result(translation: Translation) -> dict[str, Any]:
    """A translation as JSON."""
    result = {name: getattr(translation, name) for name in ("source", "text", "score")}
    result["alternatives"] = [
        {"text": other.text, "score": other.score, **_confidence(other)}
        for other in translation.alternatives
    ]
    result["warnings"] = translation.warnings
    result |= {**_confidence(translation), "review": translation.review}
    if translation.attention is not None:
        result["attention"] = attention_data(translation.attention)
    return result


def _confidence(translation: Translation | Alternative) -> dict[str, Any]:
    if translation.words is None:
        return {}
    words = [asdict(word) for word in translation.words]
    return {"confidence": translation.confidence, "words": words}


def attention_data(maps: AttentionMaps) -> dict[str, Any]:
    """Attention maps as lists; weights have four digits."""
    values = {each.name: getattr(maps, each.name) for each in fields(maps)}
    if sum(value.size for value in values.values() if not isinstance(value, list)) > _MAX_WEIGHTS:
        raise ApiError(413, f"There are more than {_MAX_WEIGHTS:,} attention weights. Send less.")
    return {
        name: value if isinstance(value, list) else value.round(4).astype(float).tolist()
        for name, value in values.items()
    }


def _refuse_long(*lengths: int) -> None:
    """Raise an error for more tokens than attention maps are returned for."""
    if max(lengths, default=0) > _MAX_TOKENS:
        raise ApiError(413, f"Attention maps are for up to {_MAX_TOKENS} tokens.")


def _translator(request: Request, name: str | None, keywords: dict[str, Any]) -> ServedModel:
    """The model by name, or by its direction; `keywords` then lose languages that are implied."""
    service = service_of(request)
    source, target = keywords.get("source_lang"), keywords.get("target_lang")
    if name is None and (source or target):
        for direction, model in service.registry.directions.items():
            if source in (None, direction.source) and target in (None, direction.target):
                return model
        known = ", ".join(map(str, service.registry.directions)) or "none"
        raise ApiError(400, f"{source} to {target} is not served. Known directions: {known}.")
    return service.find(request, name, *TRANSLATION_TASKS)


@router.post("/score", response_model=ScoreAnswer)
async def score(request: Request, query: ScoreRequest) -> Any:
    """The score of each target given its source."""
    service = service_of(request)
    if len(query.sources) != len(query.targets):
        raise ApiError(400, f"{len(query.sources)} sources and {len(query.targets)} targets.")
    service.count(request, [*query.sources, *query.targets])
    model = service.find(request, query.model, *TRANSLATION_TASKS)
    keywords = given_keywords(query, without={"sources", "targets", "model"})
    scores = await model.in_thread(model.pipeline.score, query.sources, query.targets, **keywords)
    return _json({"model": model.name, "scores": scores})


@router.post("/attention", response_model=AttentionAnswer)
async def attention(request: Request, query: AttentionRequest) -> Any:
    """The attention maps of a pair, or of a text by a language model."""
    service = service_of(request)
    if len(query.source) + len(query.target) > _MAX_ATTENTION:
        raise ApiError(413, f"Attention maps are for up to {_MAX_ATTENTION:,} characters.")
    service.count(request, [query.source, query.target])
    model = service.find(request, query.model)
    maps = await model.in_thread(_attention_maps, model, query)
    return _json({"model": model.name, "attention": attention_data(maps)})


def _attention_maps(model: ServedModel, query: AttentionRequest) -> AttentionMaps:
    tokenizers = model.folder.tokenizers
    source, target = query.source, query.target
    languages = {"source_lang": query.source_lang, "target_lang": query.target_lang}
    given = {name: language for name, language in languages.items() if language is not None}
    if model.translates:
        tag = select_direction(model.folder.text, build(DirectionConfig, given)).tag
        ids = (
            tokenizers.source.encode(add_tag(source, tag)),
            tokenizers.target.encode(target),
        )
        _refuse_long(*map(len, ids))
        return pair_attention_maps(model.pipeline.models[0], tokenizers, *ids)
    if given:
        raise ConfigError("source_lang and target_lang are for models that translate.")
    if source and target:
        raise ConfigError("A language model has no pairs: give source or target, not both.")
    ids_of_text = tokenizers.target.encode(source or target)
    _refuse_long(len(ids_of_text))
    return text_attention_maps(model.pipeline.model, tokenizers, ids_of_text)


@router.post("/predict", response_model=PredictAnswer)
async def predict_texts(request: Request, query: LabelRequest) -> Any:
    """Fill masks, label words or texts, or embed texts, by the task of the model."""
    service = service_of(request)
    service.count(request, query.texts)
    model = service.find(request, query.model)
    results: list[Any]
    match model.task:
        case "masked_language_modeling":
            results = [asdict(text) for text in await predict.fill(model, query.texts, query.top_k)]
        case "tagging":
            results = [asdict(sentence) for sentence in await predict.tag(model, query.texts)]
        case "classification":
            results = [asdict(text) for text in await predict.classify(model, query.texts)]
        case _:
            options = query.pool, query.normalize
            results = await predict.embed(model, query.texts, options[0], normalize=options[1])
    return _json({"model": model.name, "task": model.task, "results": results})


@router.post("/next", response_model=NextAnswer)
async def next_tokens(request: Request, query: NextRequest) -> Any:
    """The most probable next tokens of a text by a language model."""
    service = service_of(request)
    service.count(request, [query.text])
    model = service.find(request, query.model, "language_modeling")
    tokens = await model.in_thread(model.pipeline.next_tokens, query.text, top_k=query.top_k)
    return _json({"model": model.name, "tokens": [asdict(token) for token in tokens]})


@router.get("/models", response_model=ModelList)
async def models(request: Request) -> Any:
    """The served models."""
    listed = [model_item(model) for model in service_of(request).registry.models.values()]
    return ModelList.model_validate({"data": listed})


@router.get("/models/{name}", response_model=ModelCard)
async def card(request: Request, name: str) -> Any:
    """The card of a model: settings, data, backend and training curve."""
    model = service_of(request).find(request, name)
    return _json(
        {"object": "model", "owned_by": "regard", **await model.in_thread(model_card, model)}
    )


def _json(data: dict[str, Any]) -> Response:
    """An answer in standard JSON: NaN, as a score that was not computed, becomes null."""
    return Response(dumps(data), media_type="application/json")

"""The API of Hugging Face's inference endpoints: a request means what the task of the model is.

`POST /` asks the first model (or the first of the direction in the parameters), `POST /models/NAME`
a certain one, and `POST /models/NAME/pipeline/feature-extraction` any model for embeddings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from regard.pipelines.label_codecs import Tagged
from regard.pipelines.mask_codec import MASK, FilledText
from regard.serving import predict
from regard.serving.api_errors import ApiError
from regard.serving.languages import matching_language
from regard.serving.models import ServedModel
from regard.serving.search_options import refuse_expensive
from regard.serving.service import service_of
from regard.serving.sse import STREAMS, event, event_stream

FEATURES = "feature-extraction"
TASKS = {
    "translation": "translation",
    "nonautoregressive_translation": "translation",
    "prefix_language_modeling": "translation",
    "masked_language_modeling": "fill-mask",
    "classification": "text-classification",
    "tagging": "token-classification",
    "language_modeling": "text-generation",
    "permutation_language_modeling": FEATURES,
}
# Settings of transformers' `generate`, by ours.
_GENERATE = {
    "num_beams": "beam_size",
    "num_return_sequences": "num_hypotheses",
    "length_penalty": "length_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
    "do_sample": "sample",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
}
_UNUSED_OF_TRANSLATION = {"clean_up_tokenization_spaces", "truncation"}


class Query(BaseModel):
    """Inputs with parameters of the task; other fields are parameters as well."""

    model_config = ConfigDict(extra="allow")
    inputs: str | list[str]
    parameters: dict[str, Any] = {}
    options: dict[str, Any] = {}
    stream: bool = False

    @property
    def texts(self) -> list[str]:
        """The inputs as a list."""
        return [self.inputs] if isinstance(self.inputs, str) else self.inputs


class GenerateParameters(BaseModel):
    """Parameters of text generation."""

    model_config = ConfigDict(extra="forbid", strict=True)
    max_new_tokens: Annotated[int, Field(ge=1)] = 20
    do_sample: bool = False
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    return_full_text: bool = False
    details: bool = False
    stop: list[str] = []
    decoder_input_details: bool = False
    watermark: bool = False


class Failed(BaseModel):
    """An error."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Failed} for status in (400, 401, 404, 408, 413, 422, 429, 500)
}
router = APIRouter(responses=ERRORS, tags=["Hugging Face"])


@router.post("/", response_model=list[Any] | dict[str, Any], responses=STREAMS)
async def first_model(request: Request, query: Query) -> Any:
    """Ask the first model, or that of the direction in the parameters."""
    service = service_of(request)
    source, target = (query.parameters.get(name) for name in ("src_lang", "tgt_lang"))
    if isinstance(source, str) and isinstance(target, str):
        direction = service.registry.find_direction(source, target)
        if direction is not None:
            return await _Asked(request, service.registry.directions[direction], query).answer()
    return await _Asked(request, service.find(request, None), query).answer()


@router.post("/models/{name}", response_model=list[Any] | dict[str, Any], responses=STREAMS)
async def named_model(request: Request, name: str, query: Query) -> Any:
    """Ask a model."""
    return await _Asked(request, service_of(request).find(request, name), query).answer()


@router.post(
    "/models/{name}/pipeline/{task}", response_model=list[Any] | dict[str, Any], responses=STREAMS
)
async def named_task(request: Request, name: str, task: str, query: Query) -> Any:
    """Ask a model for its own task or for embeddings (feature-extraction)."""
    model = service_of(request).find(request, name)
    if task not in (FEATURES, TASKS.get(model.task)):
        raise ApiError(404, f"{name} is a model for {TASKS.get(model.task)}, not for {task}.")
    return await _Asked(request, model, query).answer(task)


@dataclass(frozen=True)
class _Asked:
    """A request to a model."""

    request: Request
    model: ServedModel
    query: Query

    async def answer(self, task: str | None = None) -> Any:
        """The answer in the form of a task, by default that of the model."""
        service_of(self.request).count(self.request, self.query.texts)
        answers = {
            "translation": self._translate,
            "fill-mask": self._fill,
            "text-classification": self._classify,
            "token-classification": self._tag,
            "text-generation": self._generate,
            FEATURES: self._embed,
        }
        return await answers[task or TASKS.get(self.model.task, FEATURES)]()

    @property
    def _is_single(self) -> bool:
        return isinstance(self.query.inputs, str)

    def _parameter(self, name: str, kind: type, default: Any) -> Any:
        """A parameter, which may be beside `parameters`."""
        given = {**(self.query.model_extra or {}), **self.query.parameters}
        value = given.get(name)
        if value is None:
            return default
        if type(value) is not kind:
            raise ApiError(422, f"{name} must be of type {kind.__name__}", name)
        return value

    async def _translate(self) -> Any:
        keywords = self._translation_keywords()
        service = service_of(self.request)
        refuse_expensive(keywords, service.limits)
        translated = await service.translate(self.request, self.model, self.query.texts, keywords)
        return [{"translation_text": each.text} for text in translated for each in text.ranked]

    def _translation_keywords(self) -> dict[str, Any]:
        given = {**self.query.parameters}
        keywords: dict[str, Any] = {}
        directions = self.model.directions
        for name, side in (("src_lang", "source"), ("tgt_lang", "target")):
            code = given.pop(name, None)
            if code is None:
                continue
            if not isinstance(code, str):
                raise ApiError(422, f"{name} must be text", name)
            known = matching_language(code, [getattr(each, side) for each in directions])
            if known is None:
                raise ApiError(422, f"{name} is {code!r}, which {self.model.name} does not have.")
            keywords[f"{side}_lang"] = known
        generate = given.pop("generate_parameters", None) or {}
        if not isinstance(generate, dict):
            raise ApiError(422, "generate_parameters must be an object")
        for name, value in {**given, **generate}.items():
            if name in _UNUSED_OF_TRANSLATION or value is None:
                continue
            if name not in _GENERATE or not isinstance(value, int | float):
                raise ApiError(422, f"The parameter {name} is not supported.", name)
            keywords[_GENERATE[name]] = value
        return keywords

    async def _fill(self) -> Any:
        top_k = self._parameter("top_k", int, 5)
        if not 1 <= top_k <= 100:
            raise ApiError(422, "top_k must be from 1 to 100", "top_k")
        if self._parameter("targets", list, []):
            raise ApiError(422, "The parameter targets is not supported.", "targets")
        texts = [text.replace("<mask>", MASK) for text in self.query.texts]
        filled = [_filled(each) for each in await predict.fill(self.model, texts, top_k)]
        return filled[0] if self._is_single else filled

    async def _classify(self) -> Any:
        top_k = self._parameter("top_k", int, None)
        classified = await predict.classify(self.model, self.query.texts)
        answers = []
        for each in classified:
            ranked = sorted(each.probabilities.items(), key=lambda item: -item[1])
            answers.append([{"label": label, "score": score} for label, score in ranked[:top_k]])
        return answers  # also for a single text: a list of lists

    async def _tag(self) -> Any:
        groups = self._parameter("aggregation_strategy", str, "simple") != "none"
        tagged = await predict.tag(self.model, self.query.texts)
        answers = [
            [*_entities(text, each, groups=groups)]
            for text, each in zip(self.query.texts, tagged, strict=True)
        ]
        return answers[0] if self._is_single else answers

    async def _embed(self) -> Any:
        normalize = self._parameter("normalize", bool, False)
        vectors = await predict.embed(self.model, self.query.texts, "mean", normalize=normalize)
        return vectors[0] if self._is_single else vectors

    async def _generate(self) -> Any:
        try:
            given = GenerateParameters.model_validate(self.query.parameters)
        except ValidationError as error:
            problems = [f"{each['loc'][0]}: {each['msg']}" for each in error.errors()]
            raise ApiError(422, f"Invalid parameters: {'; '.join(problems)}") from None
        service = service_of(self.request)
        if given.max_new_tokens > service.limits.max_new_tokens:
            message = f"max_new_tokens must be at most {service.limits.max_new_tokens}"
            raise ApiError(422, message, "max_new_tokens")
        keywords = _generate_keywords(given)
        if self.query.stream:
            if not self._is_single:
                raise ApiError(422, "Streaming is for one prompt.", "stream")
            return event_stream(self._events(given, keywords))
        results = await predict.complete(
            self.model, self.query.texts, given.max_new_tokens, keywords
        )
        return [
            _generated(given, prompt, result)
            for prompt, result in zip(self.query.texts, results, strict=True)
        ]

    async def _events(
        self, given: GenerateParameters, keywords: dict[str, Any]
    ) -> AsyncIterator[str]:
        """Pieces of text; ids and log-probs of single tokens are not known, and are 0."""
        [prompt] = self.query.texts
        pieces = predict.stream_text(self.model, prompt, given.max_new_tokens, keywords)
        text, index = "", 0
        async with service_of(self.request).streams:
            async for piece in pieces:
                text += piece
                yield event(_token(index, piece))
                index += 1
        details = {"finish_reason": "length", "generated_tokens": index, "input_length": 0}
        last = {"generated_text": text, "details": details if given.details else None}
        yield event({**_token(index, "", special=True), **last})


def _generate_keywords(given: GenerateParameters) -> dict[str, Any]:
    if given.do_sample or given.temperature or given.top_p or given.top_k:
        keywords = predict.sampling_keywords(given.temperature, given.top_p, given.seed)
    else:
        keywords = {"beam_size": 1}
    if given.top_k and "sample" in keywords:
        keywords["top_k"] = given.top_k
    if given.repetition_penalty is not None:
        keywords["repetition_penalty"] = given.repetition_penalty
    return keywords


def _generated(
    given: GenerateParameters, prompt: str, result: predict.Completions
) -> dict[str, Any]:
    completion = result.choices[0]
    text, is_stopped = predict.cut_at_stop(completion.text, given.stop)
    answer: dict[str, Any] = {"generated_text": prompt + text if given.return_full_text else text}
    if given.details:
        reason = "stop_sequence" if is_stopped else "length" if completion.is_cut else "eos_token"
        answer["details"] = {
            "finish_reason": reason,
            "generated_tokens": completion.tokens,
            "prefill": [],
            "tokens": [],
            "seed": given.seed,
        }
    return answer


def _token(index: int, text: str, *, special: bool = False) -> dict[str, Any]:
    token = {"id": 0, "text": text, "logprob": 0.0, "special": special}
    return {"index": index, "token": token, "generated_text": None, "details": None}


def _filled(text: FilledText) -> Any:
    """The predictions for the mask of a text; a list for each, if there are several."""
    masks = []
    before = 0
    for predictions in text.blanks:
        place = text.text.index(MASK, before)
        before = place + len(MASK)
        masks.append(
            [
                {
                    "score": each.probability,
                    "token": 0,
                    "token_str": each.word,
                    "sequence": text.text[:place] + each.word + text.text[before:],
                }
                for each in predictions
            ]
        )
    return masks[0] if len(masks) == 1 else masks


def _entities(text: str, tagged: Tagged, *, groups: bool) -> Iterator[dict[str, Any]]:
    """The words with labels other than O; in groups, words of one entity (B-X I-X) are joined."""
    spans = [*_word_places(text, tagged.words)]
    entity: dict[str, Any] | None = None
    count = 0
    for index, (label, score, (start, end)) in enumerate(
        zip(tagged.labels, tagged.probabilities, spans, strict=True), 1
    ):
        place = {"score": score, "word": text[start:end], "start": start, "end": end}
        if not groups:
            yield {"entity": label, "index": index, **place}
            continue
        name = label.removeprefix("B-").removeprefix("I-")
        if entity and label.startswith("I-") and entity["entity_group"] == name:
            count += 1
            entity["score"] += (score - entity["score"]) / count
            entity |= {"end": end, "word": text[entity["start"] : end]}
            continue
        if entity:
            yield entity
        entity, count = (None, 0) if label == "O" else ({"entity_group": name, **place}, 1)
    if entity:
        yield entity


def _word_places(text: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where each word is in the text."""
    end = 0
    for word in words:
        start = text.index(word, end)
        end = start + len(word)
        yield start, end

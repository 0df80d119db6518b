"""The completions of OpenAI, for language models; `/v1/models` is in our own API."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from regard.errors import RegardError
from regard.serving import predict
from regard.serving.api_errors import ApiError, error_body
from regard.serving.models import ServedModel
from regard.serving.search_options import StrictModel, refuse_expensive
from regard.serving.service import service_of
from regard.serving.sse import STREAMS, event, event_stream
from regard.serving.v1 import ERRORS

_MAX_STOPS = 4
router = APIRouter(prefix="/v1", responses=ERRORS, tags=["OpenAI"])
Word = Annotated[str, Field(max_length=200)]


class CompletionRequest(StrictModel):
    """A prompt to continue; `top_k`, `beam_size` and `repetition_penalty` are extensions."""

    prompt: str | list[str] = ""
    model: Word | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    stop: Word | list[Word] | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    user: str | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None
    logprobs: int | None = None
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_k: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    beam_size: Annotated[int, Field(ge=1, le=1000)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None

    @property
    def prompts(self) -> list[str]:
        """All prompts."""
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def stops(self) -> list[str]:
        """The words at which texts end."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def refuse_unsupported(self) -> None:
        """Raise an ApiError for settings that have no equivalent."""
        unsupported = {
            "logprobs": self.logprobs,
            "suffix": self.suffix,
            "logit_bias": self.logit_bias,
            "presence_penalty": self.presence_penalty,
            "frequency_penalty": self.frequency_penalty,
            "best_of": None if self.best_of in (None, self.n or 1) else self.best_of,
        }
        for name, value in unsupported.items():
            if value:
                raise ApiError(400, f"{name} is not supported by this server.", name)
        if len(self.stops) > _MAX_STOPS:
            raise ApiError(400, f"stop has more than {_MAX_STOPS} sequences.", "stop")
        if self.stream and (len(self.prompts) != 1 or (self.n or 1) > 1):
            raise ApiError(400, "Streaming is for one prompt and n=1.", "stream")

    def keywords(self) -> dict[str, Any]:
        """The settings of the search."""
        if self.beam_size is not None:
            keywords: dict[str, Any] = {"beam_size": self.beam_size}
        else:
            keywords = predict.sampling_keywords(self.temperature, self.top_p, self.seed)
        if self.top_k and "sample" in keywords:
            keywords["top_k"] = self.top_k
        if self.repetition_penalty is not None:
            keywords["repetition_penalty"] = self.repetition_penalty
        if (self.n or 1) > 1:
            if "sample" not in keywords and keywords["beam_size"] < (self.n or 1):
                raise ApiError(400, "n needs sampling: a temperature above 0.", "n")
            keywords["num_hypotheses"] = self.n
        return keywords


class Choice(BaseModel):
    """A continuation."""

    index: int
    text: str
    finish_reason: Literal["stop", "length"] | None
    logprobs: None = None


class Usage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionAnswer(BaseModel):
    """The continuations of all prompts."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


@router.post("/completions", response_model=CompletionAnswer, responses=STREAMS)
async def completions(request: Request, query: CompletionRequest) -> Any:
    """Continue prompts; with `stream`, as server-sent events that end with `[DONE]`."""
    service = service_of(request)
    query.refuse_unsupported()
    if not query.prompts:
        raise ApiError(400, "prompt is an empty list. Give a prompt.", "prompt")
    limit = service.limits.max_new_tokens
    max_tokens = min(16, limit) if query.max_tokens is None else query.max_tokens
    if max_tokens > limit:
        raise ApiError(400, f"max_tokens is {max_tokens}, but must be at most {limit}.")
    keywords = query.keywords()
    refuse_expensive(keywords, service.limits)
    service.count(request, query.prompts)
    model = service.find(request, query.model, "language_modeling")
    head = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": model.name,
    }
    if query.stream:
        return event_stream(_events(request, model, query, max_tokens, keywords, head))
    results = await predict.complete(model, query.prompts, max_tokens, keywords)
    choices = [
        _choice(query, prompt, completion)
        for prompt, result in zip(query.prompts, results, strict=True)
        for completion in result.choices
    ]
    prompt_tokens = sum(result.prompt_tokens for result in results)
    tokens = sum(each.tokens for result in results for each in result.choices)
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
    numbered = [{"index": index, **choice} for index, choice in enumerate(choices)]
    return {
        **head,
        "choices": numbered,
        "usage": {**usage, "total_tokens": prompt_tokens + tokens},
    }


def _choice(
    query: CompletionRequest, prompt: str, completion: predict.Completion
) -> dict[str, Any]:
    text, is_stopped = predict.cut_at_stop(completion.text, query.stops)
    reason = "length" if completion.is_cut and not is_stopped else "stop"
    return {"text": prompt + text if query.echo else text, "finish_reason": reason}


async def _events(
    request: Request,
    model: ServedModel,
    query: CompletionRequest,
    max_tokens: int,
    keywords: dict[str, Any],
    head: dict[str, Any],
) -> AsyncIterator[str]:
    """Pieces of text as they are generated; nothing after a stop word."""

    def chunk(text: str, reason: str | None = None) -> str:
        choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
        return event({**head, "choices": [choice]})

    [prompt] = query.prompts
    keywords = {name: value for name, value in keywords.items() if name != "num_hypotheses"}
    text, sent, is_stopped = "", 0, False
    held = max(map(len, query.stops), default=1) - 1  # a stop word may have begun
    try:
        async with service_of(request).streams:
            if query.echo:
                yield chunk(prompt)
            async for piece in predict.stream_text(model, prompt, max_tokens, keywords):
                text, is_stopped = predict.cut_at_stop(text + piece, query.stops)
                until = len(text) if is_stopped else max(sent, len(text) - held)
                if until > sent:
                    yield chunk(text[sent:until])
                sent = until
                if is_stopped:
                    break
        if sent < len(text):
            yield chunk(text[sent:])
        tokens = len(model.pipeline.tokenizer.encode_lines(text)) if text else 0
        yield chunk("", "length" if tokens >= max_tokens and not is_stopped else "stop")
        yield "data: [DONE]\n\n"
    except RegardError as error:
        yield event(error_body("v1", ApiError(400, str(error))))

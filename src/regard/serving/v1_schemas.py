"""Requests and answers of our own API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from regard.serving.search_options import SearchOptions, StrictModel

Text = Annotated[str, Field(max_length=10_000_000)]
Name = Annotated[str, Field(max_length=200)]
Texts = Annotated[list[Text], Field(max_length=1_000_000)]
Terms = Annotated[
    dict[Name, Name | list[Name]], Field(description="source terms and their translations")
]


class TranslateRequest(SearchOptions):  # type: ignore[misc]
    """Texts to translate, with the settings of `regard translate`; all settings are optional."""

    texts: Texts = Field(description="the texts", examples=[["A dog runs."]])
    model: Name | None = Field(default=None, description="name of the model; default: the first")
    glossary: Terms | None = None
    force: Annotated[list[Name], Field(max_length=32)] = Field(
        default=[], description="words that every translation contains"
    )
    prefix: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="text that every translation begins with"
    )
    attention: bool = Field(default=False, description="return attention maps")
    stream: bool = Field(
        default=False, description="answer with server-sent events, each sentence when it is ready"
    )


class Word(BaseModel):
    """A word of a translation, and the probability that it is correct."""

    text: str
    confidence: float
    start: int
    end: int


class AttentionWeights(BaseModel):
    """Attention weights between subwords, by layer and head; each matrix has a row per query."""

    source: list[str]
    target: list[str]
    decoder_inputs: list[str]
    encoder: list[Any] = Field(description="layers x heads x source x source")
    decoder: list[Any] = Field(description="layers x heads x target x target")
    cross: list[Any] = Field(description="layers x heads x target x source")


class TranslationAlternative(BaseModel):
    """Another hypothesis."""

    text: str
    score: float | None
    confidence: float | None = None
    words: list[Word] | None = None


class TranslationResult(BaseModel):
    """The translation of a text."""

    source: str
    text: str
    score: float | None
    alternatives: list[TranslationAlternative]
    warnings: list[str]
    confidence: float | None = None
    words: list[Word] | None = None
    review: bool = False
    attention: AttentionWeights | None = None


class TranslateAnswer(BaseModel):
    """The translations of all texts, in order."""

    model: str
    score_type: str
    translations: list[TranslationResult]


class ScoreRequest(StrictModel):
    """Pairs to score."""

    sources: Texts
    targets: Texts
    model: Name | None = None
    length_penalty: Annotated[float, Field(ge=0, le=5)] = 1.0
    source_lang: Name | None = None
    target_lang: Name | None = None


class ScoreAnswer(BaseModel):
    """The length-normalized log-probability of each target given its source."""

    model: str
    scores: list[float]


class AttentionRequest(StrictModel):
    """A pair of source and target, or for language models a text alone."""

    source: Text = ""
    target: Text = ""
    model: Name | None = None
    source_lang: Name | None = None
    target_lang: Name | None = None


class AttentionAnswer(BaseModel):
    """The attention maps of a pair or a text."""

    model: str
    attention: AttentionWeights


class LabelRequest(StrictModel):
    """Texts for a model that labels, fills or embeds."""

    texts: Texts
    model: Name | None = None
    top_k: Annotated[int, Field(ge=1, le=100)] = 5
    pool: Literal["mean", "first", "last"] = "mean"
    normalize: bool = True


class PredictAnswer(BaseModel):
    """What a model predicts for each text, in the form of its task."""

    model: str
    task: str
    results: list[Any]


class NextRequest(StrictModel):
    """The beginning of a text."""

    text: Text = ""
    model: Name | None = None
    top_k: Annotated[int, Field(ge=1, le=100)] = 10


class NextTokenItem(BaseModel):
    """A token that may follow, and its probability."""

    text: str
    probability: float
    is_end: bool


class NextAnswer(BaseModel):
    """The most probable next tokens, best first."""

    model: str
    tokens: list[NextTokenItem]


class DirectionItem(BaseModel):
    """A direction of translation."""

    source: str
    target: str


class ModelItem(BaseModel):
    """A served model; the first four fields are those of OpenAI."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "regard"
    task: str
    kind: str
    directions: list[DirectionItem]


class ModelList(BaseModel):
    """The served models."""

    object: Literal["list"] = "list"
    data: list[ModelItem]


class ModelCard(ModelItem):
    """A served model in detail."""

    backend: str
    device: str
    parameters: int | None
    vocabulary: dict[str, Any]
    tokenizer: str
    settings: dict[str, Any]
    data_statistics: dict[str, Any]
    is_calibrated: bool | None
    curve: list[dict[str, Any]] = Field(description="rows of the metrics log of the run, if any")


class ErrorDetail(BaseModel):
    """What was wrong with a request."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorAnswer(BaseModel):
    """An error, in the form of OpenAI."""

    error: ErrorDetail

"""Search over texts: settings, and the stream from texts to translations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from regard.config import build
from regard.data.document_context import NO_CONTEXT, DocumentContext
from regard.data.glossary import GlossarySource
from regard.data.model_text import ModelText
from regard.decoding.backend import Backend, BatchLimit, Hypothesis, Request, request_length
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.constraint_config import ConstraintKeywords
from regard.decoding.ranking_config import ScoreType
from regard.decoding.text_config import InputKeywords, TextConfig, TextConfigKeywords
from regard.pipelines.confidence import ConfidenceEstimator, WordConfidence
from regard.pipelines.context import Source
from regard.pipelines.directions import DirectionOf
from regard.pipelines.document_search import DocumentSearch
from regard.pipelines.markup import MarkupStep
from regard.pipelines.segments import TextStep, TranslatedText, TranslationCodec
from regard.pipelines.stream import ModelStage
from regard.pipelines.text_constraints import TextConstraints
from regard.pipelines.text_stream import StreamKeywords, StreamOptions, TextStream

if TYPE_CHECKING:
    from regard.decoding.attention_maps import AttentionMaps

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True)
class Alternative:
    """Another hypothesis for the same text."""

    text: str
    score: float
    # With `confidence` or `min_confidence`; a text without words has no confidence.
    confidence: float | None = None
    words: list[WordConfidence] | None = None


@dataclass(frozen=True)
class Translation:
    """The best translation of a text, and the `num_hypotheses - 1` next best."""

    source: str
    text: str
    score: float
    alternatives: list[Alternative] = field(default_factory=list)
    attention: AttentionMaps | None = None
    warnings: list[str] = field(default_factory=list)  # such as "is repetitive"
    # With `confidence` or `min_confidence`:
    confidence: float | None = None  # expected fraction of correct words
    words: list[WordConfidence] | None = None
    review: bool = False  # whether the confidence is below `min_confidence`

    @staticmethod
    def of(translated: TranslatedText, attention: AttentionMaps | None = None) -> Translation:
        """From the ranked translations of a text."""
        best, *others = translated.ranked
        alternatives = [
            Alternative(other.text, other.score, other.confidence, other.words) for other in others
        ]
        return Translation(
            translated.source,
            best.text,
            best.score,
            alternatives,
            attention,
            translated.warnings,
            best.confidence,
            best.words,
            translated.review,
        )


@dataclass(frozen=True)
class TextSearch:
    """A search with checked settings."""

    text: ModelText
    backend: Backend
    config: SearchConfig
    limit: int  # subwords of a segment
    batch_size: int | None
    direction_of: DirectionOf
    steps: tuple[TextStep, ...] = ()
    score_type: ScoreType = "log_prob"
    confidence: ConfidenceEstimator | None = None
    constraints: TextConstraints | None = None
    context: DocumentContext = NO_CONTEXT

    @property
    def _stage(self) -> ModelStage[Request, list[Hypothesis]]:
        """The stage of the stream that runs the search."""
        if self.context.target:
            tokenizer, sentences = self.text.tokenizers.target, self.context.target
            return DocumentSearch(
                self.backend, self.config, tokenizer, sentences, self.batch_size
            ).stage
        limit = self.backend.batch_limit(self.config)
        if self.batch_size is not None:
            limit = BatchLimit(self.batch_size)
        return ModelStage(
            lambda batches: self.backend.search(batches, self.config), request_length, limit
        )

    def checked(self, sources: Iterable[Source]) -> Iterator[Source]:
        """The sources; raises an error with the number of one whose text cannot be parsed."""
        for number, source in enumerate(sources, 1):
            for step in self.steps:
                if isinstance(step, MarkupStep):
                    step.check(source.text, f"Text {number}")
            yield source

    def stream(
        self, render: Callable[[TranslatedText], R]
    ) -> TextStream[Source, Request, list[Hypothesis], R]:
        """From texts to rendered translations; `render` is pickled for worker processes."""
        codec = TranslationCodec(
            self.text,
            self.limit,
            self.config.length_penalty,
            render,
            self.direction_of,
            self.steps,
            self.score_type,
            self.confidence,
            self.constraints,
            self.context,
        )
        return TextStream(codec, self._stage, self.backend.window)


@dataclass(frozen=True)
class TranslationRenderer(Generic[R]):
    """Renders a translation in a worker process."""

    render: Callable[[Translation], R]

    def __call__(self, translated: TranslatedText) -> R:
        """The rendered translation."""
        return self.render(Translation.of(translated))


class TextKeywords(SearchKeywords, StreamKeywords, total=False):
    """Search settings, and how the texts are processed."""


class TranslateKeywords(SearchKeywords, TextConfigKeywords, ConstraintKeywords, total=False):
    """Settings of a search, of its constraints, and of what happens to the texts."""


class TranslateTextKeywords(TranslateKeywords, StreamKeywords, total=False):
    """`TranslateKeywords`, and how the texts are processed."""


class ScoreTextKeywords(InputKeywords, total=False):
    """How pairs to score are read, and a glossary whose terms are annotated in the sources."""

    glossary: GlossarySource | None


class ScoreKeywords(ScoreTextKeywords, StreamKeywords, total=False):
    """`ScoreTextKeywords`, and how the pairs are processed."""


def split_score_keywords(keywords: ScoreKeywords) -> tuple[StreamOptions, ScoreTextKeywords]:
    """The two kinds of keyword arguments."""
    stream, text = _split(keywords, StreamKeywords)
    return StreamOptions(**stream), ScoreTextKeywords(**text)  # type: ignore[typeddict-item]


def split_keywords(keywords: TextKeywords) -> tuple[StreamOptions, SearchKeywords]:
    """The two kinds of keyword arguments."""
    stream, search = _split(keywords, StreamKeywords)
    return StreamOptions(**stream), SearchKeywords(**search)  # type: ignore[typeddict-item]


def split_translate_keywords(
    keywords: TranslateTextKeywords,
) -> tuple[StreamOptions, TranslateKeywords]:
    """The keyword arguments of streams, and all others."""
    stream, rest = _split(keywords, StreamKeywords)
    return StreamOptions(**stream), TranslateKeywords(**rest)  # type: ignore[typeddict-item]


def split_constraint_keywords(
    keywords: TranslateKeywords,
) -> tuple[ConstraintKeywords, TranslateKeywords]:
    """The settings of constraints, and all others."""
    constraints, rest = _split(keywords, ConstraintKeywords)
    return ConstraintKeywords(**constraints), TranslateKeywords(**rest)  # type: ignore[typeddict-item]


def split_text_keywords(keywords: TranslateKeywords) -> tuple[TextConfig, SearchKeywords]:
    """The settings of text, and the keyword arguments of the search."""
    text, search = _split(keywords, TextConfigKeywords)
    return build(TextConfig, text), SearchKeywords(**search)  # type: ignore[typeddict-item]


def _split(keywords: Mapping[str, Any], selected: type[Any]) -> tuple[dict[str, Any], ...]:
    """The keywords of a `TypedDict`, and all others."""
    names = selected.__annotations__
    mine = {name: value for name, value in keywords.items() if name in names}
    return mine, {name: value for name, value in keywords.items() if name not in names}


def unchanged(value: T) -> T:
    """The identity, which can be pickled."""
    return value

"""Settings of what happens to texts before and after a search; does not import PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from regard.bounds import Ge, Le
from regard.config import Doc, Flag, Settings
from regard.decoding.protection_config import ProtectionConfig, ProtectionKeywords
from regard.decoding.ranking_config import RankingConfig, RankingKeywords

IGNORED_TAGS = ("code", "kbd", "pre", "samp", "var")  # by default


@dataclass(frozen=True)
class DirectionConfig(Settings):
    """The direction of a translation, for models of several directions."""

    source_lang: Annotated[
        str | None,
        Doc("model of several directions: language of the text; default: any source language"),
    ] = None
    target_lang: Annotated[
        str | None, Doc("model of several directions: language to translate into")
    ] = None
    zero_shot: Annotated[
        bool,
        Doc("allow a direction without training pairs, between languages of other directions"),
    ] = False


@dataclass(frozen=True)
class InputConfig(DirectionConfig):
    """How texts are read: their direction, and their context."""

    document_context: Annotated[
        bool,
        Doc(
            "model of documents: the texts before a text are its context, and blank ones separate "
            "documents; without, each text is a document"
        ),
        Flag("--document-context/--no-document-context"),
    ] = True


@dataclass(frozen=True)
class TextConfig(InputConfig, ProtectionConfig, RankingConfig):
    """Settings of what happens to texts before and after a search."""

    forbid: Annotated[
        tuple[str, ...], Doc("word that no translation contains, in this spelling; repeatable")
    ] = ()
    retry: Annotated[
        bool,
        Doc(
            "search again, without repeated n-grams, where a translation is repetitive, reached "
            "the maximum length or is much shorter or longer than its source"
        ),
        Flag("--retry/--no-retry"),
    ] = True
    retry_below: Annotated[
        float,
        Doc("a translation with fewer target tokens per source token counts as too short"),
        Ge(0),
        Le(100),
    ] = 0.2
    retry_above: Annotated[
        float,
        Doc("a translation with more target tokens per source token, plus 10, counts as too long"),
        Ge(0),
        Le(1000),
    ] = 3.0
    confidence: Annotated[
        bool, Doc("compute the probability that each word is correct, and their mean per text")
    ] = False
    min_confidence: Annotated[
        float,
        Doc("mark translations with a lower confidence for review; 0: none"),
        Ge(0),
        Le(1),
    ] = 0.0
    calibration: Annotated[
        Path | None,
        Doc(
            "file of `regard calibrate --out`, which calibrates confidences; default: the "
            "calibration in the model folder"
        ),
    ] = None
    markup: Annotated[
        Literal["html", "xml", "markdown"] | None,
        Doc("markup of the texts: tags are taken out, and put back by word alignment"),
    ] = None
    ignore_tags: Annotated[
        tuple[str, ...],
        Doc("HTML or XML element whose content is not translated; repeatable"),
    ] = IGNORED_TAGS

    @property
    def aligns(self) -> bool:
        """Whether any setting requires word alignment."""
        return self.markup is not None or self.span_finder is not None

    @property
    def computes_confidence(self) -> bool:
        """Whether any setting requires confidences."""
        return self.confidence or self.min_confidence > 0

    def problems(self) -> Iterator[str]:
        """Settings without effect."""
        yield from super().problems()
        if self.calibration is not None and not self.computes_confidence:
            yield (
                "calibration (--calibration) has no effect without confidence (--confidence). Use "
                "both"
            )
        if self.markup is None and self.ignore_tags != IGNORED_TAGS:
            yield "ignore_tags (--ignore-tags) has no effect without markup (--markup). Use both"


class DirectionKeywords(TypedDict, total=False):
    """The fields of `DirectionConfig` as keyword arguments; a test checks that they are equal."""

    source_lang: str | None
    target_lang: str | None
    zero_shot: bool


class InputKeywords(DirectionKeywords, total=False):
    """The fields of `InputConfig` as keyword arguments; a test checks that they are equal."""

    document_context: bool


class TextConfigKeywords(InputKeywords, ProtectionKeywords, RankingKeywords, total=False):
    """The fields of `TextConfig` as keyword arguments; a test checks that they are equal."""

    forbid: tuple[str, ...]
    retry: bool
    retry_below: float
    retry_above: float
    confidence: bool
    min_confidence: float
    calibration: Path | None
    markup: Literal["html", "xml", "markdown"] | None
    ignore_tags: tuple[str, ...]

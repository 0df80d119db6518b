"""The direction of a text to translate: its target tag, and the statistics for splitting it.

The function `select_direction` decides on a direction and refuses those that a model cannot
translate. What the source language of a text is, is decided before it: by the user, for all texts.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from regard.data.directions import (
    Direction,
    DirectionStatistics,
    format_directions,
    union_statistics,
)
from regard.data.model_text import DataStatistics, ModelText
from regard.decoding.text_config import DirectionConfig
from regard.errors import ConfigError
from regard.text.language_codes import base_language
from regard.text.tags import add_tag, target_tag


class SelectedDirection(NamedTuple):
    """How the texts of a direction are encoded and split."""

    tag: str  # before each segment; empty for a model of one direction
    statistics: DataStatistics

    def tagged(self, segment: str) -> str:
        """A segment with the target tag."""
        return add_tag(segment, self.tag)


DirectionOf = Callable[[str], SelectedDirection]  # of a text; pickled for worker processes


@dataclass(frozen=True)
class SameDirection:
    """One direction for all texts."""

    direction: SelectedDirection

    def __call__(self, text: str) -> SelectedDirection:
        """The direction of a text."""
        return self.direction


def select_direction(text: ModelText, config: DirectionConfig) -> SelectedDirection:
    """The direction for these settings; raises an error if the model does not translate it."""
    if not text.directions:
        _refuse_other_languages(text, config)
        return SelectedDirection("", text.data_statistics)
    target = config.target_lang or _only_target(text.directions, config.source_lang)
    known = [each.direction for each in text.directions]
    _refuse_unknown("target_lang", target, sorted({each.target for each in known}))
    if config.source_lang is None:
        if config.zero_shot:
            raise ConfigError(
                "zero_shot (--zero-shot) has no effect without source_lang (--source-lang): the "
                "source may be in any language. Leave it out, or set the source language."
            )
        matching = [each for each in text.directions if each.target == target]
        return SelectedDirection(target_tag(target), _statistics(text, matching))
    _refuse_unknown("source_lang", config.source_lang, sorted({each.source for each in known}))
    direction = Direction(config.source_lang, target)
    matching = [each for each in text.directions if each.direction == direction]
    if not matching:
        _refuse_untrained(direction, known, zero_shot=config.zero_shot)
        matching = [each for each in text.directions if each.source == config.source_lang]
    return SelectedDirection(target_tag(target), _statistics(text, matching))


def _statistics(text: ModelText, directions: Sequence[DirectionStatistics]) -> DataStatistics:
    longest, several = union_statistics(directions)
    return replace(text.data_statistics, longest_source=longest, several_sentences=several)


def _refuse_other_languages(text: ModelText, config: DirectionConfig) -> None:
    """Raise an error for languages that are not those of a model of one direction."""
    for side, language in (("source", config.source_lang), ("target", config.target_lang)):
        known = text.languages[side]
        if language is not None and language != known:
            actual = f"its {side} language is {known}" if known else "its languages are not set"
            raise ConfigError(
                f"{side}_lang (--{side}-lang) is {language!r}, but this is a model of one "
                f"direction, and {actual}. Leave it out, or use another model."
            )
    if config.zero_shot:
        raise ConfigError(
            "zero_shot (--zero-shot) has no effect on a model of one direction. Leave it out."
        )


def _only_target(directions: Sequence[DirectionStatistics], source: str | None) -> str:
    """The target language, if there is only one (from this source language)."""
    targets = {each.target for each in directions if source in (None, each.source)}
    if len(targets) == 1:
        return targets.pop()
    listed = format_directions(each.direction for each in directions)
    raise ConfigError(
        f"The target language is missing: this model translates {listed}. Set target_lang "
        "(--target-lang)."
    )


def _refuse_unknown(name: str, language: str, known: Sequence[str]) -> None:
    """Raise an error unless a model has been trained with a language on this side."""
    if language in known:
        return
    close = [code for code in known if base_language(code) == base_language(language)]
    close = close or difflib.get_close_matches(language, known, 1)
    hint = f" Did you mean {close[0]}?" if close else ""
    side = name.removesuffix("_lang")
    raise ConfigError(
        f"{name} (--{side}-lang) is {language!r}, but the {side} languages of this model are "
        f"{', '.join(known)}.{hint}"
    )


def _refuse_untrained(direction: Direction, known: Iterable[Direction], *, zero_shot: bool) -> None:
    if direction.source == direction.target:
        raise ConfigError(
            f"source_lang and target_lang are both {direction.source}. Set two languages."
        )
    if not zero_shot:
        raise ConfigError(
            f"This model was not trained on {direction}: it translates "
            f"{format_directions(known)}. To try it nevertheless, set zero_shot (--zero-shot); "
            "translations may be in another language."
        )

"""Which search settings have an effect in which decoding mode; the others are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

from regard.config import build
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.errors import ConfigError, one_message
from regard.models.base import ModelConfig
from regard.models.nonautoregressive import NonAutoregressiveConfig

_SEARCH, _SAMPLING = {"greedy search", "beam search"}, {"sampling"}
_FERTILITIES = {"decoding with fertilities"}
_IN_TURN = _SEARCH | _SAMPLING
# Settings that have an effect in some modes only; all others have one in each.
_MODES: dict[str, set[str]] = {
    "beam_size": _SEARCH,
    "patience": _SEARCH,  # greedy search is beam search with one beam: it stops at the first end
    "max_ratio": _IN_TURN | _FERTILITIES,
    "max_extra": _IN_TURN | _FERTILITIES,
    "min_length": _IN_TURN,
    "at_limit": _IN_TURN,
    "sample": _IN_TURN,
    "temperature": _SAMPLING,
    "top_k": _SAMPLING,
    "top_p": _SAMPLING,
    "seed": _SAMPLING | _FERTILITIES,
    "fertility": _FERTILITIES,
    "candidates": _FERTILITIES | {"CTC decoding"},
}
# The default of these is a choice, so giving it asks for something; that of others is "off".
_CHOICES = {"beam_size", "seed", "max_ratio", "max_extra"}
_ONE_BEAM = {"beam_size": 1}  # is none


def mode_of(config: SearchConfig, model: ModelConfig) -> str:
    """How a model decodes with these settings."""
    if not model.autoregressive:
        ctc = cast(NonAutoregressiveConfig, model).lengths == "ctc"
        return "CTC decoding" if ctc else "decoding with fertilities"
    if config.sample:
        return "sampling"
    return "greedy search" if config.beam_size == 1 else "beam search"


def unused(config: SearchConfig, given: Collection[str], mode: str) -> list[str]:
    """The given settings that have no effect, unless they have the value that means "off"."""
    defaults = {one.name: one.default for one in fields(SearchConfig)}
    off = {name: value for name, value in defaults.items() if name not in _CHOICES} | _ONE_BEAM
    return [
        name
        for name in given
        if mode not in _MODES.get(name, {mode})
        and (name not in off or getattr(config, name) != off[name])
    ]


def refuse_unused(config: SearchConfig, given: Mapping[str, Any], mode: str) -> None:
    """Refuse settings that somebody gave and that would be ignored."""
    problems = [
        f"{name} (--{name.replace('_', '-')}) has no effect in {mode}; it is for "
        f"{' and '.join(sorted(_MODES[name]))}. Leave it out"
        for name in unused(config, given, mode)
    ]
    if problems:
        raise ConfigError(one_message(problems, "Search settings") + ".")


def effective(keywords: SearchKeywords, model: ModelConfig) -> SearchKeywords:
    """Those of several settings that have an effect on what a model writes."""
    config = build(SearchConfig, dict(keywords))
    ignored = unused(config, keywords, mode_of(config, model))
    kept = {name: value for name, value in keywords.items() if name not in ignored}
    return SearchKeywords(**kept)  # type: ignore[typeddict-item]


def refuse_unused_by_all(keywords: SearchKeywords, models: Sequence[ModelConfig]) -> None:
    """Refuse settings that have no effect on any of several models that are compared."""
    config = build(SearchConfig, dict(keywords))
    if models:
        used = set().union(*(effective(keywords, model) for model in models))
        alone = {name: value for name, value in keywords.items() if name not in used}
        refuse_unused(config, alone, mode_of(config, models[0]))

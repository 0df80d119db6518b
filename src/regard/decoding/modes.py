"""Decoding modes, and the search settings that each of them supports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any

from regard.config import build
from regard.data.model_text import DecodingFamily
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.errors import ConfigError, format_problems
from regard.option_sets import option_name

_DIVERSE = "diverse beam search"
BEAM_SEARCH = frozenset({"beam search", _DIVERSE})
SEARCH = frozenset({"greedy search"}) | BEAM_SEARCH
_SAMPLING = {"sampling"}
_FERTILITIES = {"decoding with fertilities"}
_AUTOREGRESSIVE = SEARCH | _SAMPLING
# Settings that have an effect in some modes only; all others have an effect in every mode.
_MODES: dict[str, Collection[str]] = {
    "beam_size": SEARCH,
    "beam_groups": BEAM_SEARCH,
    "diversity_penalty": {_DIVERSE},
    "patience": SEARCH,  # greedy search is beam search with one beam
    "max_ratio": _AUTOREGRESSIVE | _FERTILITIES,
    "max_extra": _AUTOREGRESSIVE | _FERTILITIES,
    "min_length": _AUTOREGRESSIVE,
    "min_ratio": _AUTOREGRESSIVE,
    "no_repeat_ngram_size": _AUTOREGRESSIVE,
    "repetition_penalty": _AUTOREGRESSIVE,
    "banned_sequences": _AUTOREGRESSIVE,
    "at_limit": _AUTOREGRESSIVE,
    "sample": _AUTOREGRESSIVE,
    "temperature": _SAMPLING,
    "top_k": _SAMPLING,
    "top_p": _SAMPLING,
    "epsilon_cutoff": _SAMPLING,
    "seed": _SAMPLING | _FERTILITIES,
    "fertility": _FERTILITIES,
    "candidates": _FERTILITIES | {"CTC decoding"},
}
# Settings whose default, if passed, is not "off".
_DEFAULT_IS_REQUEST = {"beam_size", "diversity_penalty", "seed", "max_ratio", "max_extra"}
_OFF = {"beam_size": 1}


def decoding_mode(config: SearchConfig, family: DecodingFamily) -> str:
    """The mode in which models of a family decode with these settings."""
    if family != "autoregressive":
        return {"ctc": "CTC decoding", "fertilities": "decoding with fertilities"}[family]
    if config.sample:
        return "sampling"
    if config.beam_groups > 1:
        return _DIVERSE
    return "greedy search" if config.beam_size == 1 else "beam search"


def unused_settings(config: SearchConfig, names: Collection[str], mode: str) -> list[str]:
    """Those of the named settings that have no effect in this mode and are not "off"."""
    defaults = {setting.name: setting.default for setting in fields(SearchConfig)}
    off = {
        name: value for name, value in defaults.items() if name not in _DEFAULT_IS_REQUEST
    } | _OFF
    return [
        name
        for name in names
        if mode not in _MODES.get(name, {mode})
        and (name not in off or getattr(config, name) != off[name])
    ]


def refuse_unused(config: SearchConfig, keywords: Mapping[str, Any], mode: str) -> None:
    """Raise a ConfigError for keywords that would be ignored."""
    problems = [
        f"{name} ({option_name(name)}) has no effect in {mode}; it is for "
        f"{' and '.join(sorted(_MODES[name]))}. Leave it out"
        for name in unused_settings(config, keywords, mode)
    ]
    if problems:
        raise ConfigError(format_problems(problems, "Search settings") + ".")


def effective_settings(keywords: SearchKeywords, family: DecodingFamily) -> SearchKeywords:
    """The settings that have an effect with models of a family."""
    config = build(SearchConfig, dict(keywords))
    ignored = unused_settings(config, keywords, decoding_mode(config, family))
    used = {name: value for name, value in keywords.items() if name not in ignored}
    return SearchKeywords(**used)  # type: ignore[typeddict-item]


def refuse_unused_by_all(keywords: SearchKeywords, families: Sequence[DecodingFamily]) -> None:
    """Raise a ConfigError for settings that have no effect with any of these families."""
    config = build(SearchConfig, dict(keywords))
    if families:
        used = set().union(*(effective_settings(keywords, family) for family in families))
        ignored = {name: value for name, value in keywords.items() if name not in used}
        refuse_unused(config, ignored, decoding_mode(config, families[0]))

"""Search settings that have no effect in a decoding mode are refused, and only these."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from regard.data.pairs import with_ends
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.effect import effective, mode_of, refuse_unused, refuse_unused_by_all, unused
from regard.decoding.parallel import parallel_search
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.transformer import TransformerConfig
from toys import parallel_model, sentences, small_model

SOURCE = with_ends(sentences(8, seed=2))
MODES: dict[str, dict[str, Any]] = {
    "greedy search": {"beam_size": 1},
    "beam search": {"beam_size": 3},
    "sampling": {"sample": True},
    "decoding with fertilities": {},
    "CTC decoding": {},
}
# Of each setting a value that changes much where it has an effect.
VALUES: dict[str, Any] = {
    "beam_size": 2,
    "top_beams": 2,
    "length_penalty": 0.2,
    "patience": 2.0,
    "scores": False,
    "max_ratio": 0.1,
    "max_extra": 2,
    "min_length": 12,
    "at_limit": "cut",
    "sample": True,
    "temperature": 0.3,
    "top_k": 2,
    "top_p": 0.4,
    "seed": 77,
    "fertility": "average",
    "candidates": 3,
}


def model_of(mode: str) -> Any:
    if mode in ("decoding with fertilities", "CTC decoding"):
        return parallel_model(2, lengths="ctc" if mode == "CTC decoding" else "fertility")
    return small_model()


def written(model: Any, settings: dict[str, Any]) -> object:
    config = SearchConfig(**settings)
    if isinstance(model, NonAutoregressive):
        return parallel_search(model, SOURCE, config)
    return search(model, SOURCE, config)


def test_every_setting_has_a_value_here() -> None:
    assert set(VALUES) == {field.name for field in dataclasses.fields(SearchConfig)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_what_is_refused_would_be_ignored(mode: str, name: str) -> None:
    model, settings = model_of(mode), MODES[mode] | {name: VALUES[name]}
    if (mode, name) == ("greedy search", "top_beams"):
        return  # refused by the settings themselves
    config = SearchConfig(**settings)
    if mode_of(config, model.config) != mode:
        return  # it changes the mode itself
    if not unused(config, [name], mode_of(config, model.config)):
        refuse_unused(config, settings, mode_of(config, model.config))
        return
    with pytest.raises(ConfigError, match=f"{name}.*no effect in {mode}"):
        refuse_unused(config, settings, mode_of(config, model.config))
    if name in ("sample", "min_length", "fertility") and isinstance(model, NonAutoregressive):
        return  # the search would refuse these itself
    assert written(model, settings) == written(model, MODES[mode])


@pytest.mark.parametrize("mode", MODES)
def test_a_setting_that_is_off_asks_for_nothing(mode: str) -> None:
    model = model_of(mode)
    config = SearchConfig(**MODES[mode])
    choices = {"beam_size", "seed", "max_ratio", "max_extra"}
    off = {
        one.name: one.default for one in dataclasses.fields(SearchConfig) if one.name not in choices
    }
    refuse_unused(config, off, mode_of(config, model.config))
    assert {"temperature", "patience", "candidates"} <= set(off)


def test_models_that_are_compared_have_each_their_own() -> None:
    keywords: SearchKeywords = {"beam_size": 2, "candidates": 4, "length_penalty": 0.5}
    in_turn, at_once = TransformerConfig(), NonAutoregressiveConfig()
    assert set(effective(keywords, in_turn)) == {"beam_size", "length_penalty"}
    assert set(effective(keywords, at_once)) == {"candidates", "length_penalty"}
    refuse_unused_by_all(keywords, [in_turn, at_once])
    with pytest.raises(ConfigError, match="candidates"):
        refuse_unused_by_all(keywords, [in_turn, in_turn])
    with pytest.raises(ConfigError, match="beam_size"):
        refuse_unused_by_all(keywords, [at_once])

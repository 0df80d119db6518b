"""Search settings that have no effect in a decoding mode are refused, and only these."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from regard.data.pairs import with_eos
from regard.decoding.config import SearchConfig, SearchKeywords
from regard.decoding.modes import (
    decoding_mode,
    effective_settings,
    refuse_unused,
    refuse_unused_by_all,
    unused_settings,
)
from regard.decoding.nonautoregressive import nonautoregressive_search
from regard.decoding.search import search
from regard.errors import ConfigError
from regard.models.nonautoregressive import NonAutoregressive, NonAutoregressiveConfig
from regard.models.transformer import TransformerConfig
from toys import nonautoregressive_model, sentences, small_transformer

SOURCE = with_eos(sentences(8, seed=2))
MODES: dict[str, dict[str, Any]] = {
    "greedy search": {"beam_size": 1},
    "beam search": {"beam_size": 5},
    "diverse beam search": {"beam_size": 10, "beam_groups": 2},
    "sampling": {"sample": True},
    "decoding with fertilities": {},
    "CTC decoding": {},
}
# For each setting, a value that changes the output where it has an effect.
VALUES: dict[str, Any] = {
    "beam_size": 2,
    "num_hypotheses": 2,
    "beam_groups": 5,
    "diversity_penalty": 8.0,
    "length_penalty": 0.2,
    "patience": 2.0,
    "scores": False,
    "max_ratio": 0.1,
    "max_extra": 2,
    "min_length": 12,
    "min_ratio": 2.0,
    "no_repeat_ngram_size": 1,
    "repetition_penalty": 2.0,
    "banned_sequences": tuple((token,) for token in range(4, 20)),
    "at_limit": "cut",
    "sample": True,
    "temperature": 0.3,
    "top_k": 2,
    "top_p": 0.4,
    "epsilon_cutoff": 0.2,
    "seed": 77,
    "fertility": "average",
    "candidates": 3,
}


def model_of(mode: str) -> Any:
    if mode in ("decoding with fertilities", "CTC decoding"):
        return nonautoregressive_model(
            2, length_prediction="ctc" if mode == "CTC decoding" else "fertility"
        )
    return small_transformer()


def decode(model: Any, settings: dict[str, Any]) -> object:
    config = SearchConfig(**settings)
    if isinstance(model, NonAutoregressive):
        return nonautoregressive_search(model, SOURCE, config)
    return search(model, SOURCE, config)


def test_values_cover_all_settings() -> None:
    assert set(VALUES) == {field.name for field in dataclasses.fields(SearchConfig)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VALUES)
def test_refused_settings_have_no_effect(mode: str, name: str) -> None:
    model, settings = model_of(mode), MODES[mode] | {name: VALUES[name]}
    if mode == "greedy search" and name in ("num_hypotheses", "beam_groups"):
        return  # refused by the validation of settings
    config = SearchConfig(**settings)
    if decoding_mode(config, model.config.decoding_family) != mode:
        return  # the setting changes the mode
    if not unused_settings(config, [name], decoding_mode(config, model.config.decoding_family)):
        refuse_unused(config, settings, decoding_mode(config, model.config.decoding_family))
        return
    with pytest.raises(ConfigError, match=f"{name}.*no effect in {mode}"):
        refuse_unused(config, settings, decoding_mode(config, model.config.decoding_family))
    if name in ("sample", "min_length", "fertility") and isinstance(model, NonAutoregressive):
        return  # refused by the search, too
    assert decode(model, settings) == decode(model, MODES[mode])


@pytest.mark.parametrize("mode", MODES)
def test_settings_that_are_off_are_accepted(mode: str) -> None:
    model = model_of(mode)
    config = SearchConfig(**MODES[mode])
    choices = {"beam_size", "diversity_penalty", "seed", "max_ratio", "max_extra"}
    off = {
        field.name: field.default
        for field in dataclasses.fields(SearchConfig)
        if field.name not in choices
    }
    refuse_unused(config, off, decoding_mode(config, model.config.decoding_family))
    assert {"temperature", "patience", "candidates"} <= set(off)


def test_effective_settings_per_model() -> None:
    keywords: SearchKeywords = {"beam_size": 2, "candidates": 4, "length_penalty": 0.5}
    in_turn = TransformerConfig().decoding_family
    at_once = NonAutoregressiveConfig().decoding_family
    assert set(effective_settings(keywords, in_turn)) == {"beam_size", "length_penalty"}
    assert set(effective_settings(keywords, at_once)) == {"candidates", "length_penalty"}
    refuse_unused_by_all(keywords, [in_turn, at_once])
    with pytest.raises(ConfigError, match="candidates"):
        refuse_unused_by_all(keywords, [in_turn, in_turn])
    with pytest.raises(ConfigError, match="beam_size"):
        refuse_unused_by_all(keywords, [at_once])

"""The command that `regard import` suggests can be run, and what it leaves out is named."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from exchange.languages import write_gpt2
from exchange.marians import write_marian
from regard.cli import build_app
from regard.cli.command import given_settings
from regard.cli.suggestion import Suggestion, suggest
from regard.config import build
from regard.decoding.config import SearchConfig
from regard.decoding.effect import mode_of, refuse_unused
from regard.exchange.huggingface import import_folder
from regard.exchange.huggingface.folder import ForeignFolder
from regard.models.folder import ModelFolder
from regard.models.transformer import TransformerConfig

VALUES: dict[str, list[Any]] = {
    "num_beams": [1, 2, 5, 0, 10**9, "4"],
    "do_sample": [True, False],
    "temperature": [0.7, 1.0, 0.0, 1e9],
    "top_k": [0, 50, -1, 10**12],
    "top_p": [0.9, 1.0, 7.0],
    "length_penalty": [-1.0, 0.0, 0.6, 1.0, 2, 99.0],
    "early_stopping": [True, False, "never"],
    "max_length": [1, 20, 512, 10**12],
    "max_new_tokens": [1, 7, 10**9, -3],
    "min_length": [0, 1, 5, 10**9],
    "min_new_tokens": [0, 3, -1],
    "num_return_sequences": [1, 2, 10**6],
    "bad_words_ids": [[], [[3]], [[1, 2]], 7],
    "suppress_tokens": [None, [], [3]],
    "eos_token_id": [0, [0], [0, 5], None, [[1]], "x"],
    "forced_eos_token_id": [None, 0, 3],
    "forced_bos_token_id": [None, 0],
    "repetition_penalty": [1.0, 1.3],
    "renormalize_logits": [True, False],
    "no_repeat_ngram_size": [0, 3],
    "future_setting": ["x"],
    "use_cache": [True],
}


@pytest.fixture(scope="module", params=["transformer", "causal"])
def imported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ModelFolder]:
    place = tmp_path_factory.mktemp("imported") / "their folder"
    (write_marian if request.param == "transformer" else write_gpt2)(place)
    return place, import_folder(place, place.parent / "ours")


def suggested(imported: tuple[Path, ModelFolder], settings: dict[str, Any]) -> Suggestion:
    place, made = imported
    (place / "generation_config.json").write_text(json.dumps(settings))
    return suggest(ForeignFolder(place), made, place.parent / "our model")


def parsed(command: str) -> dict[str, Any]:
    """The options of a command, by the parser of the verb, and as settings of a search."""
    verb, *words = shlex.split(command.removesuffix(" < your.txt"))[1:]
    group: Any = typer.main.get_command(build_app())
    context = group.commands[verb].make_context(verb, words)
    found: dict[str, Any] = context.params
    assert "our model" in str(found.get("model") or found.get("models"))
    given = given_settings(context, SearchConfig)
    if verb == "generate" and "beam_size" not in given:
        given["sample"] = True
    config = build(SearchConfig, given)
    refuse_unused(config, given, mode_of(config, TransformerConfig()))
    return found


@pytest.mark.parametrize("seed", range(120))
def test_random_settings_give_commands_that_parse(
    seed: int, imported: tuple[Path, ModelFolder]
) -> None:
    draw = random.Random(seed)
    names = draw.sample(sorted(VALUES), k=draw.randint(1, 9))
    settings = {name: draw.choice(VALUES[name]) for name in names}
    found = suggested(imported, settings)
    parsed(found.command)
    left_out = {text.partition("=")[0] for text in found.left_out}
    assert left_out <= settings.keys()
    if "future_setting" in settings:
        assert "future_setting" in left_out
    if settings.get("length_penalty") == -1.0 and settings.get("num_beams") in (2, 5):
        assert "length_penalty" in left_out


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_beams": 5, "length_penalty": 0.6}, {"beam_size": 5, "length_penalty": 0.6}),
        ({"num_beams": 5, "early_stopping": True}, {"patience": 1}),
        ({"num_beams": 5, "num_return_sequences": 3}, {"top_beams": 3, "count": 3}),
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50, "top_p": 1.0}),
        ({"do_sample": True, "temperature": 0.5, "top_k": 7}, {"temperature": 0.5, "top_k": 7}),
        ({"do_sample": True, "top_p": 0.5}, {"top_p": 0.5}),
        ({"max_new_tokens": 30}, {"max_tokens": 30, "max_extra": 31, "max_ratio": 0}),
        ({"max_length": 30}, {"max_extra": 30, "at_limit": "cut"}),
        ({"max_length": 30, "forced_eos_token_id": 0}, {"max_extra": 29, "at_limit": "free"}),
        ({"min_length": 4}, {"min_length": 3}),
        ({"min_new_tokens": 4}, {"min_length": 4}),
    ],
)
def test_settings_become_options(
    settings: dict[str, Any], expected: dict[str, Any], imported: tuple[Path, ModelFolder]
) -> None:
    found = parsed(suggested(imported, settings).command)
    for name in expected.keys() & found.keys():
        assert found[name] == expected[name], name


@pytest.mark.parametrize(
    "settings",
    [
        {"bad_words_ids": [[4, 5]]},
        {"bad_words_ids": [[9]]},
        {"length_penalty": -1.0, "num_beams": 2},
        {"num_beams": 2, "do_sample": True},
        {"forced_bos_token_id": 0},
        {"early_stopping": "never", "num_beams": 3},
        {"repetition_penalty": 1.2},
        {"stop_strings": ["."]},
        {"suppress_tokens": [9]},
        {"temperature": 0.0, "do_sample": True},
    ],
    ids=str,
)
def test_what_has_no_counterpart_is_named(
    settings: dict[str, Any], imported: tuple[Path, ModelFolder]
) -> None:
    first = next(iter(settings))
    left_out = suggested(imported, settings).left_out
    assert any(text.startswith((first, "do_sample=")) for text in left_out)


def test_several_eos_tokens_are_named_for_translators_alone(
    imported: tuple[Path, ModelFolder],
) -> None:
    left_out = suggested(imported, {"eos_token_id": [0, 5]}).left_out
    assert left_out == ([] if imported[1].config.kind == "causal" else ["eos_token_id=[0, 5]"])


def test_settings_of_old_folders_stand_in_config_json(imported: tuple[Path, ModelFolder]) -> None:
    place, made = imported
    (place / "generation_config.json").unlink(missing_ok=True)
    path = place / "config.json"
    before = path.read_text()
    more = {"num_beams": 3, "repetition_penalty": 2.0}
    path.write_text(json.dumps({**json.loads(before), **more}))
    found = suggest(ForeignFolder(place), made, place.parent / "our model")
    path.write_text(before)
    assert parsed(found.command)["beam_size"] == 3
    assert "repetition_penalty=2.0" in found.left_out

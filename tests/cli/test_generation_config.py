"""The command that `regard import` suggests is valid, and lists unsupported settings."""

from __future__ import annotations

import json
import random
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from exchange.language_models import write_gpt2
from exchange.marian_models import write_marian
from regard.cli import build_app
from regard.cli.command import given_settings
from regard.cli.generation_config import SuggestedCommand, suggest_command
from regard.config import build
from regard.decoding.config import SearchConfig
from regard.decoding.modes import decoding_mode, refuse_unused
from regard.exchange.huggingface import import_folder
from regard.exchange.huggingface.folder import HuggingFaceFolder
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
    folder = tmp_path_factory.mktemp("imported") / "their folder"
    (write_marian if request.param == "transformer" else write_gpt2)(folder)
    return folder, import_folder(folder, folder.parent / "ours")


def suggested(imported: tuple[Path, ModelFolder], settings: dict[str, Any]) -> SuggestedCommand:
    folder, model = imported
    (folder / "generation_config.json").write_text(json.dumps(settings))
    return suggest_command(HuggingFaceFolder(folder), model, folder.parent / "our model")


def parsed(command: str) -> dict[str, Any]:
    """The options of a command, as parsed by the command and as search settings."""
    name, *arguments = shlex.split(command.removesuffix(" < your.txt"))[1:]
    group: Any = typer.main.get_command(build_app())
    context = group.commands[name].make_context(name, arguments)
    parameters: dict[str, Any] = context.params
    assert "our model" in str(parameters.get("model") or parameters.get("models"))
    search_settings = given_settings(context, SearchConfig)
    if name == "generate" and "beam_size" not in search_settings:
        search_settings["sample"] = True
    config = build(SearchConfig, search_settings)
    refuse_unused(
        config, search_settings, decoding_mode(config, TransformerConfig().decoding_family)
    )
    return parameters


@pytest.mark.parametrize("seed", range(120))
def test_random_settings_give_commands_that_parse(
    seed: int, imported: tuple[Path, ModelFolder]
) -> None:
    draw = random.Random(seed)
    names = draw.sample(sorted(VALUES), k=draw.randint(1, 9))
    settings = {name: draw.choice(VALUES[name]) for name in names}
    parameters = suggested(imported, settings)
    parsed(parameters.command)
    unsupported = {text.partition("=")[0] for text in parameters.unsupported}
    assert unsupported <= settings.keys()
    if "future_setting" in settings:
        assert "future_setting" in unsupported
    if settings.get("length_penalty") == -1.0 and settings.get("num_beams") in (2, 5):
        assert "length_penalty" in unsupported


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"num_beams": 5, "length_penalty": 0.6}, {"beam_size": 5, "length_penalty": 0.6}),
        ({"num_beams": 5, "early_stopping": True}, {"patience": 1}),
        ({"num_beams": 5, "num_return_sequences": 3}, {"num_hypotheses": 3, "count": 3}),
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50, "top_p": 1.0}),
        ({"do_sample": True, "temperature": 0.5, "top_k": 7}, {"temperature": 0.5, "top_k": 7}),
        ({"do_sample": True, "top_p": 0.5}, {"top_p": 0.5}),
        ({"max_new_tokens": 30}, {"max_tokens": 30, "max_extra": 31, "max_ratio": 0}),
        ({"max_length": 30}, {"max_extra": 30, "at_limit": "cut"}),
        ({"max_length": 30, "forced_eos_token_id": 0}, {"max_extra": 29, "at_limit": "free"}),
        ({"min_length": 4}, {"min_length": 3}),
        ({"min_new_tokens": 4}, {"min_length": 4}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
    ],
)
def test_settings_become_options(
    settings: dict[str, Any], expected: dict[str, Any], imported: tuple[Path, ModelFolder]
) -> None:
    parameters = parsed(suggested(imported, settings).command)
    for name in expected.keys() & parameters.keys():
        assert parameters[name] == expected[name], name


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
        {"no_repeat_ngram_size": -3},
        {"stop_strings": ["."]},
        {"suppress_tokens": [9]},
        {"temperature": 0.0, "do_sample": True},
    ],
    ids=str,
)
def test_unsupported_settings_are_listed(
    settings: dict[str, Any], imported: tuple[Path, ModelFolder]
) -> None:
    first = next(iter(settings))
    unsupported = suggested(imported, settings).unsupported
    assert any(text.startswith((first, "do_sample=")) for text in unsupported)


def test_several_eos_tokens_are_unsupported_for_translation_only(
    imported: tuple[Path, ModelFolder],
) -> None:
    unsupported = suggested(imported, {"eos_token_id": [0, 5]}).unsupported
    assert unsupported == ([] if imported[1].config.kind == "causal" else ["eos_token_id=[0, 5]"])


def test_legacy_settings_are_read_from_config_json(imported: tuple[Path, ModelFolder]) -> None:
    folder, model = imported
    (folder / "generation_config.json").unlink(missing_ok=True)
    path = folder / "config.json"
    before = path.read_text()
    more = {"num_beams": 3, "repetition_penalty": 2.0}
    path.write_text(json.dumps({**json.loads(before), **more}))
    parameters = suggest_command(HuggingFaceFolder(folder), model, folder.parent / "our model")
    path.write_text(before)
    assert parsed(parameters.command)["beam_size"] == 3
    assert "repetition_penalty=2.0" in parameters.unsupported

"""Suggestions for options and keywords of other toolkits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from cli.commands import Command, regard
from regard.cli import build_app, hints
from regard.cli.hints import suggest_option
from regard.config import build, settings_of
from regard.decoding.config import FOREIGN_NAMES, SearchConfig
from regard.errors import ConfigError

__all__ = ["regard"]  # a fixture


def all_options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Each command and its options."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_options(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), [opt for param in command.params for opt in param.opts]


KNOWN = dict(all_options(get_command(build_app())))


@pytest.mark.parametrize(
    ("command", "option", "hint"),
    [
        ("translate", "--num-beams", "Use --beam-size."),
        ("translate", "--num_beams", "Use --beam-size."),
        ("translate", "--beam", "Use --beam-size."),
        ("translate", "--max-new-tokens", "Use --max-extra with --max-ratio 0."),
        ("translate", "--max_length", "Use --max-extra with --max-ratio 0."),
        ("translate", "--max-len-b", "Use --max-extra."),
        ("translate", "--max-len-a", "Use --max-ratio."),
        ("translate", "--lenpen", "Use --length-penalty."),
        ("translate", "--normalize", "Use --length-penalty."),
        ("translate", "--n-best", "Use --num-hypotheses."),
        ("translate", "--mini-batch", "Use --batch-size."),
        ("translate", "--compute_type", "Use --precision."),
        ("translate", "--gpu", "Use --device."),
        ("translate", "--input", "standard input: use < FILE"),
        ("translate", "--model", "The model is a positional argument"),
        ("translate", "--beam-sise", "Use --beam-size."),
        ("translate", "--typical-p", "See `regard translate --help`."),
        ("generate", "--max-new-tokens", "Use --max-tokens."),
        ("generate", "--num-return-sequences", "Use --count."),
        ("train", "--lr", "Use --set training.learning_rate=VALUE."),
        ("train", "--max-update", "Use --set training.max_steps=VALUE."),
        ("train", "--save-dir", "Use --out."),
        (
            "train",
            "--num-hidden-layers",
            "--set model.num_encoder_layers=VALUE or --set model.num_decoder_layers",
        ),
        ("train", "--num-layers", "Use --set model.num_layers=VALUE."),
        ("prepare", "--src-lang", "Use --source-lang."),
        ("prepare", "--joined-dictionary", "Use --joint."),
        ("evaluate", "--ref", "Use --reference."),
        ("show mask", "--lenght", "Use --length."),
    ],
)
def test_options_of_other_toolkits(command: str, option: str, hint: str) -> None:
    assert hint in suggest_option(command, option, KNOWN[command])


def test_every_option_in_the_table_exists() -> None:
    every = {option for options in KNOWN.values() for option in options}
    assert {f"--{ours}" for ours in hints._OTHER_NAMES} <= every


@pytest.mark.parametrize("command", KNOWN)
def test_suggested_options_exist(command: str) -> None:
    for theirs in (*FOREIGN_NAMES, *" ".join(hints._OTHER_NAMES.values()).split()):
        hint = suggest_option(command, f"--{theirs}", KNOWN[command]).rstrip(".").split()
        if hint[0] == "Use" and hint[1] != "--set":
            assert hint[1] in KNOWN[command]


def test_suggestion_is_printed(regard: Command) -> None:
    result = regard("show", "mask", "--lenght", "3")
    assert result.status == 2
    assert result.err == "regard: `show mask` has no option --lenght. Use --length.\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("num_beams", "beam_size"),
        ("max_new_tokens", "max_extra with max_ratio=0 (in `generate`: max_tokens)"),
        ("max_len_a", "max_ratio"),
        ("num_return_sequences", "num_hypotheses"),
        ("nbest_size", "num_hypotheses"),
        ("lenpen", "length_penalty"),
        ("do_sample", "sample"),
        ("sampling_topk", "top_k"),
        ("target_prefix", "prefixes"),
        ("max_batch_size", "batch_size"),
        ("beam_sise", "beam_size"),
        ("length", "length_penalty"),
    ],
)
def test_keywords_of_other_toolkits(name: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(SearchConfig, {name: 1})
    assert str(caught.value).endswith(f"{name} does not exist; did you mean {expected}?")


def test_unknown_keyword_gets_no_suggestion() -> None:
    with pytest.raises(ConfigError, match="typical_p does not exist; known: beam_size"):
        build(SearchConfig, {"typical_p": 1})


def test_other_names_differ_from_ours() -> None:
    assert not {*FOREIGN_NAMES} & {setting.name for setting in settings_of(SearchConfig)}

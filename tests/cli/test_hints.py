"""An option or keyword of another program is answered with ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from cli.commands import Command, regard
from regard.cli import build_app, hints
from regard.cli.hints import meaning
from regard.config import build, settings_of
from regard.decoding.config import OTHER_NAMES, SearchConfig
from regard.errors import ConfigError

__all__ = ["regard"]  # a fixture


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Each verb, and its options."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from verbs(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), [opt for one in command.params for opt in one.opts]


KNOWN = dict(verbs(get_command(build_app())))


@pytest.mark.parametrize(
    ("verb", "option", "words"),
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
        ("translate", "--n-best", "Use --top-beams."),
        ("translate", "--mini-batch", "Use --batch-size."),
        ("translate", "--compute_type", "Use --precision."),
        ("translate", "--gpu", "Use --device."),
        ("translate", "--input", "standard input: use < FILE"),
        ("translate", "--model", "Models are arguments"),
        ("translate", "--beam-sise", "Use --beam-size."),
        ("translate", "--repetition-penalty", "See `regard translate --help`."),
        ("generate", "--max-new-tokens", "Use --max-tokens."),
        ("generate", "--num-return-sequences", "Use --count."),
        ("train", "--lr", "Use --set training.learning_rate=VALUE."),
        ("train", "--max-update", "Use --set training.max_steps=VALUE."),
        ("train", "--save-dir", "Use --out."),
        ("train", "--num-layers", "--set model.encoder_layers=VALUE or --set model.decoder_layers"),
        ("prepare", "--src-lang", "Use --source-lang."),
        ("prepare", "--joined-dictionary", "Use --joint."),
        ("evaluate", "--ref", "Use --reference."),
        ("show mask", "--lenght", "Use --length."),
    ],
)
def test_options_of_other_programs(verb: str, option: str, words: str) -> None:
    assert words in meaning(verb, option, KNOWN[verb])


def test_every_option_in_the_table_is_one_of_some_verb() -> None:
    every = {option for options in KNOWN.values() for option in options}
    assert {f"--{ours}" for ours in hints._THEIRS} <= every


@pytest.mark.parametrize("verb", KNOWN)
def test_what_is_suggested_exists(verb: str) -> None:
    for theirs in (*OTHER_NAMES, *" ".join(hints._THEIRS.values()).split()):
        words = meaning(verb, f"--{theirs}", KNOWN[verb]).rstrip(".").split()
        if words[0] == "Use" and words[1] != "--set":
            assert words[1] in KNOWN[verb]


def test_a_command_line_is_answered(regard: Command) -> None:
    done = regard("show", "mask", "--lenght", "3")
    assert done.status == 2
    assert done.err == "regard: `show mask` has no option --lenght. Use --length.\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num_beams", "beam_size"),
        ("max_new_tokens", "max_extra with max_ratio=0 (in `generate`: max_tokens)"),
        ("max_len_a", "max_ratio"),
        ("num_return_sequences", "top_beams"),
        ("num_hypotheses", "top_beams"),
        ("lenpen", "length_penalty"),
        ("do_sample", "sample"),
        ("sampling_topk", "top_k"),
        ("target_prefix", "prefixes"),
        ("max_batch_size", "batch_size"),
        ("beam_sise", "beam_size"),
        ("length", "length_penalty"),
    ],
)
def test_keywords_of_other_programs(name: str, meant: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build(SearchConfig, {name: 1})
    assert str(caught.value).endswith(f"{name} does not exist; did you mean {meant}?")


def test_a_keyword_that_means_nothing_here_gets_no_guess() -> None:
    with pytest.raises(ConfigError, match="repetition_penalty does not exist; known: beam_size"):
        build(SearchConfig, {"repetition_penalty": 1})


def test_other_names_are_not_our_own() -> None:
    assert not {*OTHER_NAMES} & {setting.name for setting in settings_of(SearchConfig)}

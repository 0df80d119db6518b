"""What to do with an imported model: how their `generate` searches, as options of our commands.

Each of their settings gives options, changes nothing, or is named as having no counterpart.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.config import settings_of
from regard.decoding.config import SearchConfig
from regard.exchange.huggingface.folder import GENERATION, ForeignFolder, several_ids
from regard.models.folder import ModelFolder
from regard.tasks import task_of
from regard.text.foreign import ForeignTokenizer
from regard.text.special import SPECIAL

MOST_TOKENS = 100_000  # of --max-tokens
_MARKS = (SPECIAL.pad, SPECIAL.unknown, SPECIAL.start)  # which our searches never write
# Where a setting has another value, their search does what ours does not.
_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p"), 1.0),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), 0),
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "penalty_alpha"), 0.0),
    **dict.fromkeys(("min_p", "forced_bos_token_id", "sequence_bias", "guidance_scale")),
    **dict.fromkeys(("exponential_decay_length_penalty", "begin_suppress_tokens", "constraints")),
    **dict.fromkeys(("force_words_ids", "stop_strings", "max_time", "dola_layers")),
    **dict.fromkeys(("renormalize_logits", "remove_invalid_values", "token_healing"), False),
    "num_beam_groups": 1,
}
# What does not change which text is found.
_SILENT = {
    *("transformers_version", "_from_model_config", "use_cache", "cache_config", "low_memory"),
    *("cache_implementation", "output_attentions", "output_hidden_states", "output_scores"),
    *("output_logits", "return_dict_in_generate", "bos_token_id", "pad_token_id", "is_assistant"),
    *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "assistant_early_exit", "disable_compile"),
    *("prompt_lookup_num_tokens", "max_matching_ngram_size", "compile_config"),
    *("prefill_chunk_size", "watermarking_config", "trust_remote_code"),
}
_SEARCH = {setting.name: setting for setting in settings_of(SearchConfig)}


@dataclass(frozen=True)
class Suggestion:
    """A command that does with a model of ours what theirs does, and what it leaves out."""

    command: str
    left_out: list[str]  # as "name=value"


def suggest(folder: ForeignFolder, made: ModelFolder, out: Path) -> Suggestion:
    """How to use a model that was imported from a folder."""
    path, task = shlex.quote(str(out)), made.config.task
    if task == "masked_language_modeling":  # some have no head that predicts words
        return Suggestion(f"regard embed {path} < your.txt", [])
    if task not in ("translation", "language_modeling"):
        return Suggestion(task_of(made.config).next_command(path), [])
    search = _Search(folder, made)
    if not search.translates:
        search.read(_GENERATE)
        options = " ".join(search.options)
        return Suggestion(f"regard generate {path} {options} 'How it begins'", search.left_out)
    search.read(_TRANSLATE)
    options = " ".join(["--backend torch", *search.options])
    return Suggestion(f"regard translate {path} {options} < your.txt", search.left_out)


@dataclass
class _Search:
    """Their settings, and what they have become so far."""

    folder: ForeignFolder
    made: ModelFolder
    options: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        stated = self.folder.json(GENERATION)
        config = {name: self.folder.config.get(name) for name in _NEUTRAL.keys() | _READ}
        everything = stated or config
        self.said = {name: value for name, value in everything.items() if value is not None}

    def read(self, table: Mapping[str, Callable[[_Search], None]]) -> None:
        """Go through a table of settings, and name whatever is in none."""
        for name, rule in table.items():
            if name in self.said or name in _ALWAYS:
                rule(self)
        for name in self.said.keys() - _READ - _SILENT:
            if self.said[name] != _NEUTRAL.get(name) and self.said[name] not in ([], {}):
                self.leave_out(name)
        self.left_out.sort()

    def leave_out(self, name: str) -> None:
        """Name a setting that has no counterpart."""
        text = f"{name}={self.said[name]}"
        self.left_out.append(text if len(text) < 60 else text[:57] + "...")

    @property
    def translates(self) -> bool:
        """Whether the verb is translate, and not generate."""
        return self.made.config.task == "translation"

    @property
    def beams(self) -> int:
        """How many their search keeps, as far as ours can."""
        found = self.said.get("num_beams", 1)
        return found if _fits("beam_size", found) else 1

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn; with several beams, ours cannot."""
        return self.said.get("do_sample") is True and self.beams == 1

    def add(self, name: str, option: str, setting: str, value: Any) -> None:
        """An option with a value, or a setting left out if ours has not this range."""
        if _fits(setting, value):
            self.options.append(f"{option} {value}")
        else:
            self.leave_out(name)


def _fits(setting: str, value: Any) -> bool:
    """Whether a setting of our searches may have a value."""
    own = _SEARCH[setting]
    kinds = (int, float) if own.type is float else (int,)
    return type(value) in kinds and not [*own.out_of_bounds(value)]


def _beams(search: _Search) -> None:
    if "num_beams" in search.said and not _fits("beam_size", search.said["num_beams"]):
        search.leave_out("num_beams")
    if not search.draws:
        search.options.append(f"--beam-size {search.beams}")


def _draw(search: _Search) -> None:
    """Their defaults are other than ours, so each is said."""
    if search.said.get("do_sample") and not search.draws:
        search.leave_out("do_sample")
    if not search.draws:
        return
    if search.translates:
        search.options.append("--sample")
    for name, usual in (("temperature", 1.0), ("top_k", 50), ("top_p", 1.0)):
        search.add(name, f"--{name.replace('_', '-')}", name, search.said.get(name, usual))


def _length_penalty(search: _Search) -> None:
    """It compares beams, and only them."""
    if search.beams > 1 and search.said["length_penalty"] != 1.0:
        value = search.said["length_penalty"]
        search.add("length_penalty", "--length-penalty", "length_penalty", value)


def _early_stopping(search: _Search) -> None:
    if search.beams > 1 and search.said["early_stopping"] is True:
        search.options.append("--patience 1")
        if not search.translates:
            search.leave_out("early_stopping")  # there an empty text counts, too
    elif search.beams > 1 and search.said["early_stopping"] is not False:
        search.leave_out("early_stopping")


def _longest(search: _Search) -> None:
    """Theirs count the decoder start token, ours EOS."""
    name = "max_new_tokens" if "max_new_tokens" in search.said else "max_length"
    value, forced = search.said.get(name), search.said.get("forced_eos_token_id")
    if forced is not None and several_ids(forced) != [_numbering(search).end]:
        search.leave_out("forced_eos_token_id")
        forced = None
    if value is None:
        return
    longest = value - (name == "max_length") + (forced is None) if type(value) is int else None
    if not _fits("max_extra", longest):
        search.leave_out(name)
        return
    at_limit = "cut" if forced is None else "free"
    search.options.append(f"--max-ratio 0 --max-extra {longest} --at-limit {at_limit}")


def _shortest(search: _Search) -> None:
    """Theirs count the decoder start token."""
    found = 0
    for name, start in (("min_length", 1), ("min_new_tokens", 0)):
        value = search.said.get(name, 0)
        if type(value) is int and _fits("min_length", max(value - start, 0)):
            found = max(found, value - start)
        else:
            search.leave_out(name)
    if found or "--patience 1" in search.options:  # with which ours is 1 unless told otherwise
        search.options.append(f"--min-length {found}")


def _max_tokens(search: _Search) -> None:
    value = search.said.get("max_new_tokens")
    if type(value) is int and 1 <= value <= MOST_TOKENS:
        search.options.append(f"--max-tokens {value}")
    elif value is not None:
        search.leave_out("max_new_tokens")
    elif "max_length" in search.said:
        search.leave_out("max_length")  # it counts the prompt, too


def _no_minimum(search: _Search) -> None:
    for name in ("min_length", "min_new_tokens"):
        if search.said.get(name):
            search.leave_out(name)


def _several(search: _Search) -> None:
    value = search.said["num_return_sequences"]
    if value == 1:
        return
    if search.draws or (type(value) is int and value <= search.beams):
        option = "--top-beams" if search.translates else "--count"
        search.add("num_return_sequences", option, "top_beams", value)
    else:
        search.leave_out("num_return_sequences")


def _forbidden(search: _Search) -> None:
    """What our searches never write is forbidden already."""
    for name in ("bad_words_ids", "suppress_tokens"):
        numbering = _numbering(search)
        never = [numbering.theirs[mark] for mark in _MARKS]
        words = search.said.get(name) or []
        known = [*never, *([number] for number in never)]
        if not isinstance(words, list) or any(word not in known for word in words):
            search.leave_out(name)


def _eos(search: _Search) -> None:
    """A translation has one EOS."""
    end = _numbering(search).end
    if any(number != end for number in several_ids(search.said["eos_token_id"])):
        search.leave_out("eos_token_id")


def _start(search: _Search) -> None:
    usual = search.folder.config.get("decoder_start_token_id")
    if usual is not None and search.said["decoder_start_token_id"] != usual:
        search.leave_out("decoder_start_token_id")


def _nothing(search: _Search) -> None:
    """Another row reads it, or the model has it."""


def _numbering(search: _Search) -> Any:
    tokenizer = search.made.tokenizers.target
    assert isinstance(tokenizer, ForeignTokenizer)
    return tokenizer.numbering


_BOTH: dict[str, Callable[[_Search], None]] = {
    "num_beams": _beams,
    "early_stopping": _early_stopping,
    "length_penalty": _length_penalty,
    "do_sample": _draw,
    **dict.fromkeys(("temperature", "top_k", "top_p"), _nothing),
    "num_return_sequences": _several,
    "bad_words_ids": _forbidden,
    "suppress_tokens": _nothing,
}
_TRANSLATE = {
    **_BOTH,
    "min_length": _shortest,
    "max_length": _longest,
    **dict.fromkeys(("min_new_tokens", "max_new_tokens", "forced_eos_token_id"), _nothing),
    "eos_token_id": _eos,
    "decoder_start_token_id": _start,
}
_GENERATE = {
    **_BOTH,
    "max_new_tokens": _max_tokens,
    "min_length": _no_minimum,
    **dict.fromkeys(("max_length", "min_new_tokens", "eos_token_id"), _nothing),
    **dict.fromkeys(("decoder_start_token_id", "forced_eos_token_id"), _nothing),
}
_READ = _TRANSLATE.keys() | _GENERATE.keys()
# Rows that stand for several settings, or for a default of theirs.
_ALWAYS = {"num_beams", "do_sample", "max_length", "max_new_tokens", "min_length", "bad_words_ids"}

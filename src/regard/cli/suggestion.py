"""What to do with an imported model: how their `generate` searches, as options of our commands.

Each of their settings gives options, changes nothing, or is named as having no counterpart.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import settings_of
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.exchange.huggingface.folder import GENERATION, ForeignFolder, several_ids
from regard.models.folder import ModelFolder
from regard.option_sets import option_of
from regard.tasks import task_of
from regard.text.foreign import ForeignTokenizer
from regard.text.special import SPECIAL

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
# What becomes options.
_READ = {
    *(
        "num_beams",
        "early_stopping",
        "length_penalty",
        "do_sample",
        "temperature",
        "top_k",
        "top_p",
    ),
    *("num_return_sequences", "bad_words_ids", "suppress_tokens", "min_length", "min_new_tokens"),
    *("top_p", "max_length", "max_new_tokens", "forced_eos_token_id", "eos_token_id"),
    "decoder_start_token_id",
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
    options, left_out = " ".join(search.options), sorted(search.left_out)
    if search.translates:
        command = f"regard translate {path} --backend torch {options} < your.txt"
    else:
        command = f"regard generate {path} {options} 'How it begins'"
    return Suggestion(command, left_out)


class _Search:
    """Their settings, and what becomes of them."""

    def __init__(self, folder: ForeignFolder, made: ModelFolder) -> None:
        old = {name: folder.config.get(name) for name in _NEUTRAL.keys() | _READ}
        stated = folder.json(GENERATION) or old
        self.said = {name: value for name, value in stated.items() if value is not None}
        self.options: list[str] = []
        self.left_out: list[str] = []
        self.translates = made.config.task == "translation"
        tokenizer = made.tokenizers.target
        assert isinstance(tokenizer, ForeignTokenizer)
        self._numbering = tokenizer.numbering
        self._read_beams()
        self._read_sampling()
        self._read_forbidden()
        if self.translates:
            self._read_shortest()
            self._read_longest()
            self._read_ends(folder.config.get("decoder_start_token_id"))
        else:
            self._read_max_tokens()
        for name in self.said.keys() - _READ - _SILENT:
            if self.said[name] != _NEUTRAL.get(name) and self.said[name] not in ([], {}):
                self._leave_out(name)

    def _leave_out(self, name: str) -> None:
        """Name a setting that has no counterpart."""
        text = f"{name}={self.said[name]}"
        self.left_out.append(text if len(text) < 60 else text[:57] + "...")

    def _add(self, name: str, value: Any, option: str = "", setting: str = "") -> None:
        """An option with a value, or a setting left out if ours has not this range."""
        if _fits(setting or name, value):
            self.options.append(f"{option or option_of(name)} {value}")
        else:
            self._leave_out(name)

    def _read_beams(self) -> None:
        """The length penalty and when to stop matter with several beams only."""
        beams, early = self.said.get("num_beams", 1), self.said.get("early_stopping", False)
        if not _fits("beam_size", beams):
            self._leave_out("num_beams")
            beams = 1
        self._beams = beams
        self._draws = self.said.get("do_sample") is True and beams == 1  # ours cannot with beams
        if not self._draws:
            self.options.append(f"--beam-size {beams}")
        if beams == 1:
            return
        if early is True:
            self.options.append("--patience 1")
        if early is not False and not (early is True and self.translates):
            self._leave_out("early_stopping")  # in `regard generate` an empty text counts, too
        if self.said.get("length_penalty", 1.0) != 1.0:
            self._add("length_penalty", self.said["length_penalty"])

    def _read_sampling(self) -> None:
        """Their defaults are other than ours, so each is said."""
        if self._draws:
            self.options += ["--sample"] if self.translates else []
            for name, usual in (("temperature", 1.0), ("top_k", 50), ("top_p", 1.0)):
                self._add(name, self.said.get(name, usual))
        elif self.said.get("do_sample"):
            self._leave_out("do_sample")
        count = self.said.get("num_return_sequences", 1)
        if count != 1 and not self._draws and not (type(count) is int and count <= self._beams):
            self._leave_out("num_return_sequences")
        elif count != 1:
            option = "--top-beams" if self.translates else "--count"
            self._add("num_return_sequences", count, option, "top_beams")

    def _read_forbidden(self) -> None:
        """What our searches never write is forbidden already."""
        never = [self._numbering.theirs[mark] for mark in _MARKS]
        known = [*never, *([number] for number in never)]
        for name in ("bad_words_ids", "suppress_tokens"):
            words = self.said.get(name) or []
            if not isinstance(words, list) or any(word not in known for word in words):
                self._leave_out(name)

    def _read_shortest(self) -> None:
        """Theirs count the decoder start token."""
        shortest = 0
        for name, start in (("min_length", 1), ("min_new_tokens", 0)):
            value = self.said.get(name, 0)
            if type(value) is int and _fits("min_length", max(value - start, 0)):
                shortest = max(shortest, value - start)
            else:
                self._leave_out(name)
        if shortest or "--patience 1" in self.options:  # with which ours is 1 by default
            self.options.append(f"--min-length {shortest}")

    def _read_longest(self) -> None:
        """Theirs count the decoder start token, ours EOS."""
        name = "max_new_tokens" if "max_new_tokens" in self.said else "max_length"
        value, forced = self.said.get(name), self.said.get("forced_eos_token_id")
        if forced is not None and several_ids(forced) != [self._numbering.end]:
            self._leave_out("forced_eos_token_id")
            forced = None
        if value is None:
            return
        longest = value - (name == "max_length") + (forced is None) if type(value) is int else None
        if not _fits("max_extra", longest):
            self._leave_out(name)
            return
        at_limit = "cut" if forced is None else "free"
        self.options.append(f"--max-ratio 0 --max-extra {longest} --at-limit {at_limit}")

    def _read_ends(self, usual_start: Any) -> None:
        """A translation has one EOS, and begins as the model says."""
        ends = several_ids(self.said.get("eos_token_id"))
        if any(number != self._numbering.end for number in ends):
            self._leave_out("eos_token_id")
        start = self.said.get("decoder_start_token_id", usual_start)
        if usual_start is not None and start != usual_start:
            self._leave_out("decoder_start_token_id")

    def _read_max_tokens(self) -> None:
        """Texts have no minimum, and no limit that counts the prompt, too."""
        value = self.said.get("max_new_tokens")
        if type(value) is int and 1 <= value <= MAX_TOKENS.bound:
            self.options.append(f"--max-tokens {value}")
        elif value is not None:
            self._leave_out("max_new_tokens")
        elif "max_length" in self.said:
            self._leave_out("max_length")
        for name in ("min_length", "min_new_tokens"):
            if self.said.get(name):
                self._leave_out(name)


def _fits(setting: str, value: Any) -> bool:
    """Whether a setting of our searches may have a value."""
    own = _SEARCH[setting]
    kinds = (int, float) if own.type is float else (int,)
    return type(value) in kinds and not [*own.out_of_bounds(value)]

"""Converts the generation config of an imported HuggingFace model to command options.

Each setting becomes options, has no effect on the output, or is reported as unsupported.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import settings_of
from regard.decoding.config import MAX_TOKENS, SearchConfig
from regard.exchange.huggingface.folder import GENERATION, HuggingFaceFolder, to_id_list
from regard.models.folder import ModelFolder
from regard.option_sets import option_name
from regard.tasks import task_of
from regard.text.imported import ImportedTokenizer
from regard.text.special import SPECIAL

_NEVER_GENERATED = (SPECIAL.pad, SPECIAL.unk, SPECIAL.bos)  # by our searches
# Values without effect; any other value is unsupported.
_NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p"), 1.0),
    "encoder_no_repeat_ngram_size": 0,
    **dict.fromkeys(("epsilon_cutoff", "eta_cutoff", "diversity_penalty", "penalty_alpha"), 0.0),
    **dict.fromkeys(("min_p", "forced_bos_token_id", "sequence_bias", "guidance_scale")),
    **dict.fromkeys(("exponential_decay_length_penalty", "begin_suppress_tokens", "constraints")),
    **dict.fromkeys(("force_words_ids", "stop_strings", "max_time", "dola_layers")),
    **dict.fromkeys(("renormalize_logits", "remove_invalid_values", "token_healing"), False),
    "num_beam_groups": 1,
}
# Settings that do not change the generated text.
_IGNORED = {
    *("transformers_version", "_from_model_config", "use_cache", "cache_config", "low_memory"),
    *("cache_implementation", "output_attentions", "output_hidden_states", "output_scores"),
    *("output_logits", "return_dict_in_generate", "bos_token_id", "pad_token_id", "is_assistant"),
    *("num_assistant_tokens", "num_assistant_tokens_schedule", "assistant_confidence_threshold"),
    *("assistant_lookbehind", "target_lookbehind", "assistant_early_exit", "disable_compile"),
    *("prompt_lookup_num_tokens", "max_matching_ngram_size", "compile_config"),
    *("prefill_chunk_size", "watermarking_config", "trust_remote_code"),
}
# Settings that become options.
_CONVERTED = {
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
    *("decoder_start_token_id", "no_repeat_ngram_size"),
}
_SEARCH = {setting.name: setting for setting in settings_of(SearchConfig)}


@dataclass(frozen=True)
class SuggestedCommand:
    """A command that runs an imported model as `generate` of transformers does."""

    command: str
    unsupported: list[str]  # settings without an equivalent option, as "name=value"


def suggest_command(
    folder: HuggingFaceFolder, imported: ModelFolder, out: Path
) -> SuggestedCommand:
    """The command that runs a model imported from `folder` to `out`."""
    path, task = shlex.quote(str(out)), imported.config.task
    if task == "masked_language_modeling":  # some have no language-model head
        return SuggestedCommand(f"regard embed {path} < your.txt", [])
    if task not in ("translation", "language_modeling"):
        return SuggestedCommand(task_of(imported.config).next_command(path), [])
    search = _OptionConverter(folder, imported)
    options, unsupported = " ".join(search.options), sorted(search.unsupported)
    if search.translates:
        command = f"regard translate {path} --backend torch {options} < your.txt"
    else:
        command = f"regard generate {path} {options} 'Once upon a time'"
    return SuggestedCommand(command, unsupported)


class _OptionConverter:
    """Converts a generation config to `options` and `unsupported` settings."""

    def __init__(self, folder: HuggingFaceFolder, imported: ModelFolder) -> None:
        legacy = {name: folder.config.get(name) for name in _NEUTRAL.keys() | _CONVERTED}
        config = folder.json(GENERATION) or legacy
        self.config = {name: value for name, value in config.items() if value is not None}
        self.options: list[str] = []
        self.unsupported: list[str] = []
        self.translates = imported.config.task == "translation"
        tokenizer = imported.tokenizers.target
        assert isinstance(tokenizer, ImportedTokenizer)
        self._id_mapping = tokenizer.id_mapping
        self._read_beams()
        self._read_sampling()
        self._read_forbidden()
        if self.translates:
            self._read_min_length()
            self._read_max_length()
            self._read_ngram_size()
            self._read_special_tokens(folder.config.get("decoder_start_token_id"))
        else:
            if self.config.get("no_repeat_ngram_size"):
                self._add_unsupported("no_repeat_ngram_size")
            self._read_max_tokens()
        for name in self.config.keys() - _CONVERTED - _IGNORED:
            if self.config[name] != _NEUTRAL.get(name) and self.config[name] not in ([], {}):
                self._add_unsupported(name)

    def _add_unsupported(self, name: str) -> None:
        """Report a setting that has no equivalent option."""
        text = f"{name}={self.config[name]}"
        self.unsupported.append(text if len(text) < 60 else text[:57] + "...")

    def _add(self, name: str, value: Any, option: str = "", setting: str = "") -> None:
        """Add an option with a value, or an unsupported setting if the value is out of range."""
        if _fits(setting or name, value):
            self.options.append(f"{option or option_name(name)} {value}")
        else:
            self._add_unsupported(name)

    def _read_beams(self) -> None:
        """Beam size, and length penalty and early stopping if it is larger than 1."""
        beams, early = self.config.get("num_beams", 1), self.config.get("early_stopping", False)
        if not _fits("beam_size", beams):
            self._add_unsupported("num_beams")
            beams = 1
        self._beams = beams
        self._samples = (
            self.config.get("do_sample") is True and beams == 1
        )  # we do not sample with beams
        if not self._samples:
            self.options.append(f"--beam-size {beams}")
        if beams == 1:
            return
        if early is True:
            self.options.append("--patience 1")
        if early is not False and not (early is True and self.translates):
            self._add_unsupported(
                "early_stopping"
            )  # `regard generate` also counts empty texts as finished
        if self.config.get("length_penalty", 1.0) != 1.0:
            self._add("length_penalty", self.config["length_penalty"])

    def _read_sampling(self) -> None:
        """Sampling options; each is set, since the defaults of transformers differ from ours."""
        if self._samples:
            self.options += ["--sample"] if self.translates else []
            for name, default in (("temperature", 1.0), ("top_k", 50), ("top_p", 1.0)):
                self._add(name, self.config.get(name, default))
        elif self.config.get("do_sample"):
            self._add_unsupported("do_sample")
        count = self.config.get("num_return_sequences", 1)
        if count != 1 and not self._samples and not (type(count) is int and count <= self._beams):
            self._add_unsupported("num_return_sequences")
        elif count != 1:
            option = "--num-hypotheses" if self.translates else "--count"
            self._add("num_return_sequences", count, option, "num_hypotheses")

    def _read_forbidden(self) -> None:
        """Suppressed tokens; special tokens that our searches never generate are supported."""
        banned_ids = [self._id_mapping.imported_ids[token] for token in _NEVER_GENERATED]
        known = [*banned_ids, *([number] for number in banned_ids)]
        for name in ("bad_words_ids", "suppress_tokens"):
            ids = self.config.get(name) or []
            if not isinstance(ids, list) or any(item not in known for item in ids):
                self._add_unsupported(name)

    def _read_min_length(self) -> None:
        """Minimum length; transformers counts the decoder start token."""
        minimum = 0
        for name, start in (("min_length", 1), ("min_new_tokens", 0)):
            value = self.config.get(name, 0)
            if type(value) is int and _fits("min_length", max(value - start, 0)):
                minimum = max(minimum, value - start)
            else:
                self._add_unsupported(name)
        if minimum or "--patience 1" in self.options:  # for which our default is 1
            self.options.append(f"--min-length {minimum}")

    def _read_max_length(self) -> None:
        """Maximum length; transformers counts the decoder start token, we count EOS."""
        name = "max_new_tokens" if "max_new_tokens" in self.config else "max_length"
        value, forced = self.config.get(name), self.config.get("forced_eos_token_id")
        if forced is not None and to_id_list(forced) != [self._id_mapping.end]:
            self._add_unsupported("forced_eos_token_id")
            forced = None
        if value is None:
            return
        maximum = value - (name == "max_length") + (forced is None) if type(value) is int else None
        if not _fits("max_extra", maximum):
            self._add_unsupported(name)
            return
        at_limit = "cut" if forced is None else "free"
        self.options.append(f"--max-ratio 0 --max-extra {maximum} --at-limit {at_limit}")

    def _read_ngram_size(self) -> None:
        """Size of n-grams that must not repeat; the repetition penalty of beam search differs."""
        if self.config.get("no_repeat_ngram_size"):
            self._add("no_repeat_ngram_size", self.config["no_repeat_ngram_size"])

    def _read_special_tokens(self, default_start: Any) -> None:
        """EOS and the decoder start token; we support one EOS and the start token of the model."""
        eos_ids = to_id_list(self.config.get("eos_token_id"))
        if any(number != self._id_mapping.end for number in eos_ids):
            self._add_unsupported("eos_token_id")
        start = self.config.get("decoder_start_token_id", default_start)
        if default_start is not None and start != default_start:
            self._add_unsupported("decoder_start_token_id")

    def _read_max_tokens(self) -> None:
        """Maximum number of new tokens; other length limits are unsupported."""
        value = self.config.get("max_new_tokens")
        if type(value) is int and 1 <= value <= MAX_TOKENS.bound:
            self.options.append(f"--max-tokens {value}")
        elif value is not None:
            self._add_unsupported("max_new_tokens")
        elif "max_length" in self.config:
            self._add_unsupported("max_length")
        for name in ("min_length", "min_new_tokens"):
            if self.config.get(name):
                self._add_unsupported(name)


def _fits(setting: str, value: Any) -> bool:
    """Whether a value is allowed for a field of `SearchConfig`."""
    field = _SEARCH[setting]
    types = (int, float) if field.type is float else (int,)
    return type(value) in types and not [*field.out_of_bounds(value)]

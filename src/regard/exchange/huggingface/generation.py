"""What to do with an imported model: how their `generate` searches, as options of our commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.exchange.huggingface.folder import GENERATION, ForeignFolder

# What says nothing about how words are chosen, or says what every search of ours does.
_SILENT = {
    *("bad_words_ids", "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id"),
    *("forced_eos_token_id", "transformers_version", "use_cache", "_from_model_config"),
    *("output_attentions", "output_hidden_states", "output_scores", "return_dict_in_generate"),
    *("max_length", "num_beams", "length_penalty", "max_new_tokens", "do_sample", "cache_config"),
    *("temperature", "top_k", "top_p", "renormalize_logits"),
}


def command(folder: ForeignFolder, kind: str, out: Path) -> str:
    """The command that does with a model of ours what theirs does."""
    if kind == "transformer":
        return f"regard translate {out} --engine torch {' '.join(options(folder))} < your.txt"
    if kind == "causal":
        return f"regard generate {out} {' '.join(_beams(folder))} 'How it begins'"
    if kind == "permuted":
        return f"regard evaluate {out} --text your.txt"
    verb = {"tagger": "tag", "classifier": "classify"}.get(kind, "embed")
    return f"regard {verb} {out} < your.txt"


def options(folder: ForeignFolder) -> list[str]:
    """The options that search as theirs does unless told otherwise."""
    said = folder.json(GENERATION) or folder.config
    found = _beams(folder)
    if "--patience 1" in found:
        found.append(f"--min-length {said.get('min_length') or 0}")  # an empty output counts there
    if said.get("length_penalty", 1.0) != 1.0:
        found.append(f"--length-penalty {said['length_penalty']:g}")
    longest = said.get("max_new_tokens") or (said.get("max_length") or 0) - 1
    if longest > 0:  # theirs count the start mark, ours the end mark
        forced = said.get("forced_eos_token_id") is not None
        found.append(f"--max-ratio 0 --max-extra {longest if forced else longest + 1}")
        found.append(f"--at-limit {'free' if forced else 'cut'}")
    return found


def _beams(folder: ForeignFolder) -> list[str]:
    """How many, and when a sentence is done."""
    said = folder.json(GENERATION) or folder.config
    beams = said.get("num_beams") or 1
    stops = said.get("early_stopping") is True and beams > 1
    return [f"--beam-size {beams}", *["--patience 1"] * stops]


def left_out(folder: ForeignFolder) -> list[str]:
    """What their search would do and ours does not."""
    said = folder.json(GENERATION)
    found = {name: value for name, value in said.items() if name not in _SILENT and value}
    if found.get("early_stopping") is True:
        del found["early_stopping"]  # which is our `--patience 1`
    return [f"{name}={_short(value)}" for name, value in found.items()]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 30 else text[:27] + "..."

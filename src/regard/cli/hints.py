"""Suggestions for unknown options: close matches, and the names that other toolkits use.

A foreign name can match several options; the first that the command has is suggested.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from regard.config import all_paths
from regard.decoding.config import FOREIGN_NAMES as SEARCH_NAMES
from regard.decoding.config import LENGTH
from regard.option_sets import option_name
from regard.training.foreign_names import FOREIGN_NAMES as RUN_NAMES

_CLOSE = 0.75  # difflib ratio from which a name counts as a misspelling
# Our options -> their names in HuggingFace, fairseq, Marian, OpenNMT, Sockeye and others.
_OTHER_NAMES = {
    "batch-size": "batch batchsize max-batch-size max-sentences mini-batch",
    "buffer-size": "chunk-size",
    "character-coverage": "coverage",
    "count": "n-best nbest num-return-sequences num-samples",
    "data": "data-path dataset dataset-name train-data",
    "device": "cpu cuda device-ids devices gpu gpuid gpus use-cpu use-cuda",
    "backend": "runtime",
    "format": "output-format output-type",
    "from": "finetune-from-model init-from load-model pretrained restore-file train-from",
    "joint": "joined-dictionary share-vocab shared-vocab",
    "lowercase": "do-lower-case lc lower-case",
    "max-extra": "max-decoding-length max-length max-len max-new-tokens max-output-length",
    "max-tokens": "max-length max-len max-new-tokens",
    "out": "dest-dir destdir model-dir out-dir output output-dir save-dir save-model",
    "precision": "bf16 compute-type dtype fp16 half int8 quantization quantize torch-dtype",
    "prefix": "prefixes target-prefix",
    "reference": "ref references refs",
    "source": "input src src-file train-src trainpref",
    "target": "tgt tgt-file train-tgt trg",
    "source-lang": "source-language src-lang",
    "target-lang": "target-language tgt-lang trg-lang",
    "tokenizer": "bpe model-type",
    "tokenizer-from": "dict srcdict vocab vocabulary",
    "vocab-size": "bpe-size n-words nwordssrc num-words spm-vocab-size vocab",
    "valid-source": "dev-src valid-src validpref",
    "valid-target": "dev-tgt valid-tgt",
}
_FROM_STANDARD_INPUT = {"file", "in", "input", "input-file", "src", "source"}
_TO_STANDARD_OUTPUT = {"hypotheses", "out", "output", "output-file"}
_PIPED = {"translate", "generate", "fill", "tag", "classify", "embed"}


def suggest_option(command: str, option: str, known: Iterable[str]) -> str:
    """Advice for an option that the command does not have."""
    known = [name for name in known if name.startswith("--")]
    name = option.lstrip("-").replace("_", "-").lower()
    matches = [match for match in _candidates(name) if match in known]
    if matches:
        suffix = (
            " with --max-ratio 0" if SEARCH_NAMES.get(_with_underscores(name)) == (LENGTH,) else ""
        )
        return f"Use {matches[0]}{suffix if matches[0] == '--max-extra' else ''}."
    if command == "train" and (paths := _setting_paths(_with_underscores(name))):
        return f"Use {' or '.join(f'--set {path}=VALUE' for path in paths)}."
    if command in _PIPED and name in _FROM_STANDARD_INPUT:
        return "The command reads text from standard input: use < FILE."
    if command in _PIPED and name in _TO_STANDARD_OUTPUT:
        return "The command writes results to standard output: use > FILE."
    if name in ("model", "path", "models"):
        return "The model is a positional argument: give its path without an option."
    close = difflib.get_close_matches(f"--{name}", known, 1, cutoff=_CLOSE)
    return f"Use {close[0]}." if close else f"See `regard {command} --help`."


def _setting_paths(name: str) -> list[str]:
    """The settings of a run with this name, here or in other toolkits."""
    from regard.training.config import RunConfig

    settings = [path for path in all_paths(RunConfig) if path.rpartition(".")[2] == name]
    return settings or [*RUN_NAMES.get(name, ())]


def _with_underscores(name: str) -> str:
    return name.replace("-", "_")


def _candidates(name: str) -> list[str]:
    """Our options with this name, here or in other toolkits, with hyphens for underscores."""
    options = [option for option, foreign in _OTHER_NAMES.items() if name in foreign.split()]
    options += [path.split()[0] for path in SEARCH_NAMES.get(_with_underscores(name), ())]
    return [option_name(option) for option in (name, *options)]

"""What an option that a verb does not have may mean: another spelling, or another program's name.

A name may mean several of ours: the verb decides, by the options that it has.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from regard.decoding.config import LENGTH
from regard.decoding.config import OTHER_NAMES as OF_SEARCHES
from regard.training.other_names import OTHER_NAMES as OF_RUNS

_CLOSE = 0.75  # of difflib's ratio, from which a name counts as another spelling
# Our options -> what HuggingFace, fairseq, Marian, OpenNMT, Sockeye and others call them.
_THEIRS = {
    "batch-size": "batch batchsize max-batch-size max-sentences mini-batch",
    "buffer": "buffer-size chunk-size",
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


def meaning(verb: str, option: str, known: Iterable[str]) -> str:
    """What to do instead of giving an option that the verb does not have."""
    known = [name for name in known if name.startswith("--")]
    name = option.lstrip("-").replace("_", "-").lower()
    near = [ours for ours in _candidates(name) if ours in known]
    if near:
        alone = " with --max-ratio 0" if OF_SEARCHES.get(_plain(name)) == (LENGTH,) else ""
        return f"Use {near[0]}{alone if near[0] == '--max-extra' else ''}."
    if verb == "train" and _plain(name) in OF_RUNS:
        paths = OF_RUNS[_plain(name)]
        return f"Use {' or '.join(f'--set {path}=VALUE' for path in paths)}."
    if verb in _PIPED and name in _FROM_STANDARD_INPUT:
        return "Text is read from standard input: use < FILE."
    if verb in _PIPED and name in _TO_STANDARD_OUTPUT:
        return "Results go to standard output: use > FILE."
    if name in ("model", "path", "models"):
        return "Models are arguments: give the path without an option."
    close = difflib.get_close_matches(f"--{name}", known, 1, cutoff=_CLOSE)
    return f"Use {close[0]}." if close else f"See `regard {verb} --help`."


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _candidates(name: str) -> list[str]:
    """Our options that other programs call so, or that are written so but for underscores."""
    ours = [option for option, theirs in _THEIRS.items() if name in theirs.split()]
    ours += [path.split()[0] for path in OF_SEARCHES.get(_plain(name), ())]
    return [f"--{one.replace('_', '-')}" for one in (name, *ours)]

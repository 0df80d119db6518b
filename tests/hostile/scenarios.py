"""Scenarios: command lines that succeed, at least one per command, which the generators modify.

They are written as in a shell: `< FILE` is standard input, `> PATH` is a further output path, and
@KIND stands for the settings of a tiny model of that kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from hostile.fixtures import KINDS, PREPARE, STEPS, settings, sizes

_TRANSLATE = "translate models/{} --format jsonl --scores < text/test.xx"
_TRAIN = "train --data data/{1} --out new/run --device cpu @{0}"
_IMPORT = "import huggingface/{} --out new/model"
_LINES = """
translate-text: translate models/transformer --beam-size 2 < text/test.xx
translate-checkpoint: translate models/transformer/checkpoints/00000002 --format jsonl --scores
  < text/test.xx
translate-candidates: translate models/nonautoregressive --candidates 2
  --teacher models/transformer < text/test.xx
translate-file: translate models/transformer --file text/test.xx --file-format txt
  --out new/test.txt
score: score models/transformer --source text/test.xx --target text/test.yy
align: align models/transformer --source text/test.xx --target text/test.yy --gold text/test.gold
align-picture: align models/transformer --source text/test.xx --target text/test.yy --line 2
  --picture picture.png
align-data: align --data data/pairs > data/pairs/train.fertilities > data/pairs/valid.fertilities
evaluate: evaluate models/transformer --source text/test.xx --reference text/test.yy --format json
  --beam-size 1
evaluate-output: evaluate models/transformer --source text/test.xx --reference text/test.yy
  --out out.txt --picture picture.png --worst 2 --by-length
evaluate-hypotheses: evaluate --hypotheses text/test.xx --against text/test.yy
  --reference text/test.yy --resamples 100 --format json
evaluate-text: evaluate models/causal --text text/test.txt --format json
evaluate-xl: evaluate models/xl --text text/test.txt --memory 4
evaluate-permuted: evaluate models/permuted --text text/test.txt
evaluate-tagged: evaluate models/tagger --tagged text/test.tsv --format json
evaluate-labelled: evaluate models/classifier --labelled text/test.labels --picture picture.png
compare-models: compare models/transformer models/recurrent --source text/test.xx
  --reference text/test.yy --rounds 1 --latency-sentences 2 --format json --gradients 1
compare-layers: compare --lengths 4,8 --d-model 8 --num-heads 2 --layer-batch-size 1 --rounds 1
  --format json
compare-picture: compare --lengths 4 --d-model 8 --num-heads 2 --layer-batch-size 1 --rounds 1
  --picture picture.png
generate: generate models/causal --max-tokens 8 --format jsonl --no-stream --count 2 < text/test.xx
generate-xl: generate models/xl "a b" --max-tokens 8 --stream
fill: fill models/masked --format jsonl < text/masked.txt
fill-text: fill models/masked "a [MASK] b"
embed: embed models/masked --pooling first < text/test.xx
embed-out: embed models/masked --out vectors.npy < text/test.xx
tag: tag models/tagger --format jsonl < text/test.xx
tag-columns: tag models/tagger --input-format columns < text/test.tsv
classify: classify models/classifier --format jsonl < text/test.xx
classify-labelled: classify models/classifier --labelled < text/test.labels
prepare: prepare --source text/train.xx --target text/train.yy --valid-source text/valid.xx
  --valid-target text/valid.yy @prepare --out new/data
prepare-gzip: prepare --source text/train.xx.gz --target text/train.yy @prepare --tokenizer bpe
  --out new/data
prepare-from: prepare --source text/train.xx --target text/train.yy
  --tokenizer-from models/transformer --out new/data
prepare-text: prepare --text text/train.txt --valid-text text/valid.txt @prepare --out new/data
prepare-tagged: prepare --tagged text/train.tsv --valid-tagged text/valid.tsv @prepare
  --out new/data
prepare-labelled: prepare --labelled text/train.labels --valid-labelled text/valid.labels @prepare
  --out new/data
shortlist: shortlist models/transformer --data data/pairs > models/transformer/shortlist.json
average: average models/transformer --last 2 --out new/model
average-best: average models/causal --best 2 --out new/model
merge: merge models/adapter --out new/model
distill: distill models/transformer --data data/pairs --out new/data --chunk-size 40 --beam-size 1
  --backend torch
distill-joined: distill models/transformer --data data/pairs --out data/distilled --chunk-size 40
  --beam-size 1 --backend torch --shard 2/2 > data/distilled.portions
distill-words: distill models/recurrent --data data/pairs --out new/data --chunk-size 40
  --beam-size 1 --backend torch --distributions 4 --mix
export-ctranslate2: export models/listed --to ctranslate2 --precision int8 --out new/model
export-argos: export models/transformer --to argos --out new/xx_yy.argosmodel
export-huggingface: export models/transformer --to huggingface --out new/model
train-recipe: train recipe.toml --out new/run
train-resumed: train --data data/pairs --out models/transformer --device cpu @transformer
  --set training.max_steps=6
train-from: train --data data/pairs --from models/transformer --out new/run @steps
  --set training.lora.rank=2 --set training.warmup_steps=2 --set training.tensorboard=false
train-teacher: train --data data/aligned --out new/run @nonautoregressive
  --set training.teacher=models/transformer
tune: tune recipe.toml --space space.toml --out tuning --device cpu --trials 2 --format json
show-positions: show positions --length 8 --d-model 8 --picture picture.png --dimension 1
show-mask: show mask causal --length 6 --picture picture.png
show-mask-text: show mask window --length 6
show-scores: show scores 4 8 --keys 4 --picture picture.png
show-schedule: show schedule recipe.toml --picture picture.png
show-attention: show attention models/transformer "a b c" --layer 1 --head 1 --picture picture.png
show-fertilities: show fertilities models/nonautoregressive "a b c"
show-model: show model models/transformer
show-model-adapter: show model models/adapter
show-settings: show settings model --kind causal
"""
_PLACES = ("models/", "data/", "text/", "huggingface/", "tuning", "recipe.toml", "space.toml")
_OUTPUTS = ("--out", "--picture")


@dataclass(frozen=True)
class Scenario:
    """A command line, its inputs and its outputs."""

    name: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()  # paths of fixtures
    stdin: str = ""  # one of those, or empty
    outputs: tuple[str, ...] = ()
    format: str = ""  # of standard output: json or jsonl

    @property
    def command(self) -> str:
        """The name of the command, such as "train" or "show mask"."""
        return " ".join(self.arguments[: 2 if self.arguments[0] == "show" else 1])

    @property
    def is_deterministic(self) -> bool:
        """Whether the result is reproducible; measured times are not."""
        return self.command != "compare"


def all_scenarios() -> dict[str, Scenario]:
    """All scenarios by name."""
    lines = {}
    for line in _LINES.strip().replace("\n  ", " ").splitlines():
        name, _, arguments = line.partition(": ")
        lines[name] = arguments
    for kind, content in KINDS.items():
        lines[f"train-{kind}"] = _TRAIN.format(kind, content)
        if content in ("pairs", "aligned"):
            lines[f"translate-{kind}"] = _TRANSLATE.format(kind)
    for model in ("adapter", "ctranslate2", "onnx"):
        lines[f"translate-{model}"] = _TRANSLATE.format(model)
    for family in ("marian", "gpt2", "bert", "roberta", "xlnet"):
        lines[f"import-{family}"] = _IMPORT.format(family)
    return {name: _parse(name, line) for name, line in lines.items()}


def _parse(name: str, line: str) -> Scenario:
    stdin, outputs, arguments = "", [], list[str]()
    split = iter(shlex.split(line))
    for argument in split:
        if argument == "<":
            stdin = next(split)
        elif argument == ">":
            outputs.append(next(split))
        else:
            arguments += _expand(argument)
    arguments = assigned_once(arguments)
    for option, value in pairwise(arguments):
        if option in _OUTPUTS:
            outputs.append("new" if value.startswith("new/") else value)
    paths = [argument.rpartition("=")[2] for argument in [*arguments, stdin]]
    needs = [path for path in paths if path.startswith(_PLACES) and path != "data/distilled"]
    needs += [place for place in outputs if place == "data/distilled.portions"]
    if "models/adapter" in needs or any("checkpoints" in need for need in needs):
        needs.append("models/transformer")
    if "recipe.toml" in needs and arguments[0] in ("train", "tune"):
        needs.append("data/pairs")
    return Scenario(name, tuple(arguments), tuple(needs), stdin, tuple(outputs), _format(arguments))


def assigned_once(arguments: Iterable[str]) -> list[str]:
    """The arguments with only the last assignment of each setting; repeated ones are refused."""
    others: list[str] = []
    assigned: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--set":
            assignment = next(rest)
            assigned[assignment.partition("=")[0]] = assignment
        else:
            others.append(argument)
    return others + settings(*assigned.values())


def _expand(argument: str) -> list[str]:
    if argument == "@prepare":
        return PREPARE
    if argument == "@steps":
        return settings(*STEPS)
    return sizes(argument[1:]) if argument.startswith("@") else [argument]


def _format(arguments: list[str]) -> str:
    """The expected format of standard output."""
    if arguments[0] == "embed" and "--out" not in arguments:
        return "jsonl"
    return arguments[arguments.index("--format") + 1] if "--format" in arguments else ""

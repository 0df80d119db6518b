"""Command lines that succeed, at least one of every verb; the generators change them.

They are written as for a shell: `< FILE` is standard input, `> PATH` is one more place where the
command writes, and @KIND stands for the settings of a tiny model of a kind.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from hostile.kit import KINDS, PREPARE, STEPS, settings, sizes

_TRANSLATE = "translate models/{} --format jsonl --scores < text/test.xx"
_TRAIN = "train --data data/{1} --out new/run --device cpu @{0}"
_IMPORT = "import huggingface/{} --out new/model"
_LINES = """
translate-text: translate models/transformer --beam-size 2 < text/test.xx
translate-checkpoint: translate models/transformer/checkpoints/00000002 --format jsonl --scores
  < text/test.xx
translate-candidates: translate models/nonautoregressive --candidates 2
  --teacher models/transformer < text/test.xx
score: score models/transformer --source text/test.xx --target text/test.yy
align: align models/transformer --source text/test.xx --target text/test.yy --gold text/test.gold
align-picture: align models/transformer --source text/test.xx --target text/test.yy --line 2
  --picture picture.png
align-data: align --data data/pairs > data/pairs/train.fertilities > data/pairs/valid.fertilities
evaluate: evaluate models/transformer --source text/test.xx --reference text/test.yy --format json
  --beam-size 1
evaluate-output: evaluate models/transformer --source text/test.xx --reference text/test.yy
  --output out.txt --picture picture.png --worst 2 --by-length
evaluate-hypotheses: evaluate --hypotheses text/test.xx --against text/test.yy
  --reference text/test.yy --resamples 100 --format json
evaluate-text: evaluate models/causal --text text/test.txt --format json
evaluate-xl: evaluate models/xl --text text/test.txt --memory 4
evaluate-permuted: evaluate models/permuted --text text/test.txt
evaluate-tagged: evaluate models/tagger --tagged text/test.tsv --format json
evaluate-labelled: evaluate models/classifier --labelled text/test.labels --picture picture.png
compare-models: compare models/transformer models/recurrent --source text/test.xx
  --reference text/test.yy --rounds 1 --one-by-one 2 --format json --gradients 1
compare-layers: compare --lengths 4,8 --width 8 --heads 2 --batch 1 --rounds 1 --format json
compare-picture: compare --lengths 4 --width 8 --heads 2 --batch 1 --rounds 1 --picture picture.png
generate: generate models/causal --max-tokens 8 --format jsonl --whole --count 2 < text/test.xx
generate-xl: generate models/xl "a b" --max-tokens 8 --stream
fill: fill models/masked --format jsonl < text/masked.txt
fill-text: fill models/masked "a [MASK] b"
embed: embed models/masked --pool first < text/test.xx
embed-out: embed models/masked --out vectors.npy < text/test.xx
tag: tag models/tagger --json < text/test.xx
tag-columns: tag models/tagger --input columns < text/test.tsv
classify: classify models/classifier --json < text/test.xx
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
distill: distill models/transformer --data data/pairs --out new/data --portion 40 --beam-size 1
  --engine torch
distill-joined: distill models/transformer --data data/pairs --out data/distilled --portion 40
  --beam-size 1 --engine torch --share 2/2 > data/distilled.portions
distill-words: distill models/recurrent --data data/pairs --out new/data --portion 40
  --beam-size 1 --engine torch --distributions 4 --mix
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
show-positions: show positions --length 8 --width 8 --picture picture.png --dimension 1
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
_PLACES = ("models/", "data/", "text/", "huggingface/", "recipe.toml")
_OUTPUTS = ("--out", "--output", "--picture")


@dataclass(frozen=True)
class Scene:
    """A command line, the folders that it needs, and what it may write."""

    name: str
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()  # paths of the kit
    stdin: str = ""  # one of those, or nothing
    outputs: tuple[str, ...] = ()
    format: str = ""  # of standard output: json or jsonl

    @property
    def verb(self) -> str:
        """The verb, or both of them."""
        return " ".join(self.words[: 2 if self.words[0] == "show" else 1])

    @property
    def is_steady(self) -> bool:
        """Whether it always writes the same; times are never the same."""
        return self.verb != "compare"


def all_scenes() -> dict[str, Scene]:
    """Every scene by its name."""
    lines = {}
    for line in _LINES.strip().replace("\n  ", " ").splitlines():
        name, _, words = line.partition(": ")
        lines[name] = words
    for kind, content in KINDS.items():
        lines[f"train-{kind}"] = _TRAIN.format(kind, content)
        if content in ("pairs", "aligned"):
            lines[f"translate-{kind}"] = _TRANSLATE.format(kind)
    for model in ("adapter", "ctranslate2", "onnx"):
        lines[f"translate-{model}"] = _TRANSLATE.format(model)
    for family in ("marian", "gpt2", "bert", "roberta", "xlnet"):
        lines[f"import-{family}"] = _IMPORT.format(family)
    return {name: _scene(name, line) for name, line in lines.items()}


def _scene(name: str, line: str) -> Scene:
    stdin, outputs, words = "", [], list[str]()
    split = iter(shlex.split(line))
    for word in split:
        if word == "<":
            stdin = next(split)
        elif word == ">":
            outputs.append(next(split))
        else:
            words += _expanded(word)
    words = assigned_once(words)
    for option, value in pairwise(words):
        if option in _OUTPUTS:
            outputs.append("new" if value.startswith("new/") else value)
    paths = [word.rpartition("=")[2] for word in [*words, stdin]]
    needs = [path for path in paths if path.startswith(_PLACES) and path != "data/distilled"]
    needs += [place for place in outputs if place == "data/distilled.portions"]
    if "models/adapter" in needs or any("checkpoints" in need for need in needs):
        needs.append("models/transformer")
    if "recipe.toml" in needs and words[0] == "train":
        needs.append("data/pairs")
    return Scene(name, tuple(words), tuple(needs), stdin, tuple(outputs), _format(words))


def assigned_once(words: Iterable[str]) -> list[str]:
    """The words with the last assignment of each setting only: a repeated one is refused."""
    kept: list[str] = []
    assigned: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "--set":
            assignment = next(rest)
            assigned[assignment.partition("=")[0]] = assignment
        else:
            kept.append(word)
    return kept + settings(*assigned.values())


def _expanded(word: str) -> list[str]:
    if word == "@prepare":
        return PREPARE
    if word == "@steps":
        return settings(*STEPS)
    return sizes(word[1:]) if word.startswith("@") else [word]


def _format(words: list[str]) -> str:
    """What standard output has to be."""
    if "--json" in words or (words[0] == "embed" and "--out" not in words):
        return "jsonl"
    return words[words.index("--format") + 1] if "--format" in words else ""

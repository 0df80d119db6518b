"""The program that wrote these folders with version 0.1.0, commit 5a006d7; not to be run again.

The folders prove that what this version wrote can still be read, so newer code must not replace
them. All text is made up. Everything was made with the command line:

    PYTHONPATH=src:tests python -m stored.make
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from stored.outputs import (
    KINDS,
    READERS,
    RUNS,
    STORES,
    Tree,
    batch_outputs,
    exported_shortlist,
    merged_outputs,
    model_outputs,
    run_outputs,
    store_outputs,
)

HOME = Path(__file__).parent
WORDS = {"mira": "arim", "tolu": "ulo", "sen": "nes", "kapi": "ipa", "dov": "vo", "lume": "emu"}


def regard(*words: str, stdin: str = "") -> str:
    """Return the standard output of a command."""
    environment = {**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", *words]
    process = subprocess.run(
        command, input=stdin, env=environment, stdout=subprocess.PIPE, text=True
    )
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed")
    return process.stdout


def write_texts(name: str, count: int, seed: int) -> None:
    """Text of every content: `name` and an ending for each."""
    draw = random.Random(seed)
    sources = [draw.choices(sorted(WORDS), k=draw.randint(2, 5)) for _ in range(count)]
    targets = [[WORDS[word] for word in reversed(line)] for line in sources]
    tagged = [
        [
            (word, "B-one" if word < after else "O")
            for word, after in zip(s, s[1:] + s[:1], strict=True)
        ]
        for s in sources
    ]
    labelled = [
        ("same" if source[0] in following else "other", " ".join(source), " ".join(following))
        for source, following in zip(sources, sources[1:] + sources[:1], strict=True)
    ]
    text = [" ".join(line) + ("\n\n" if draw.random() < 0.3 else "\n") for line in sources]
    columns = ["".join(f"{word}\t{label}\n" for word, label in line) for line in tagged]
    contents = {
        "source": "".join(" ".join(line) + "\n" for line in sources),
        "target": "".join(" ".join(line) + "\n" for line in targets),
        "text": "".join(text),
        "tagged": "\n".join(columns),
        "labelled": "".join("\t".join(row) + "\n" for row in labelled),
    }
    for ending, content in contents.items():
        (HOME / "texts" / f"{name}.{ending}").write_text(content)


def prepare() -> None:
    """A store of each content; that of pairs has two corpora, fertilities, and a distilled twin."""
    write_texts("train", 60, seed=1)
    write_texts("more", 12, seed=2)
    write_texts("valid", 6, seed=3)
    both = ["--source", "texts/train.source", "--target", "texts/train.target", "--tag", ""]
    both += ["--source", "texts/more.source", "--target", "texts/more.target", "--tag", "<bt>"]
    valid = ["--valid-source", "texts/valid.source", "--valid-target", "texts/valid.target"]
    spoken = ["--source-lang", "xx", "--target-lang", "yy", "--vocab-size", "290"]
    regard("prepare", *both, *valid, *spoken, "--out", "stores/pairs")
    regard("align", "--data", "stores/pairs")
    for content, tokenizer in (("text", "word"), ("tagged", "bpe"), ("labelled", "char")):
        files = [f"--{content}", f"texts/train.{content}"]
        files += [f"--valid-{content}", f"texts/valid.{content}"]
        cut = ["--tokenizer", tokenizer, "--vocab-size", "290"]
        regard("prepare", *files, *cut, "--out", f"stores/{content}")


def train() -> None:
    """A model folder of each kind, a few runs with their last checkpoint, and an adapter."""
    for kind in KINDS:
        regard("train", f"recipes/{kind}.toml", "--device", "cpu")
        regard("average", f"runs/{kind}", "--last", "1", "--out", f"models/{kind}")
    few = ["--likeliest", "3", "--frequent", "2"]
    regard("shortlist", "models/transformer", "--data", "stores/pairs", *few)
    regard("train", "recipes/adapter.toml", "--device", "cpu")
    kept = ["--data", "stores/pairs", "--distributions", "2", "--backend", "torch"]
    regard("distill", "models/transformer", *kept, "--out", "stores/distilled")
    for run in (HOME / "runs").iterdir():
        if run.name not in RUNS:
            shutil.rmtree(run)
    for path in [*(HOME / "texts").glob("train.*"), *(HOME / "texts").glob("more.*")]:
        path.unlink()
    for path in (HOME / "runs").glob("*/lock"):
        path.unlink()


def expected() -> Tree:
    """What this version says of a copy of the folders."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(HOME, copy, dirs_exist_ok=True)
        os.chdir(copy)
        outputs = {
            "models": {kind: model_outputs(regard, kind) for kind in KINDS},
            "stores": {name: store_outputs(name) for name in STORES},
            "batches": {name: batch_outputs(name) for name in READERS},
            "merged": {"adapter": merged_outputs(regard)},
            "shortlist": {"transformer": exported_shortlist(regard)},
            "runs": {name: run_outputs(regard, name) for name in RUNS},
        }
        os.chdir(HOME)
    return outputs


def rounded(value: Any) -> Any:
    """The same with seven digits after the points."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 7) if isinstance(value, float) else value


def written(tree: Any, depth: int = 3, margin: str = "") -> str:
    """JSON with a line for each output."""
    if not depth or not isinstance(tree, dict):
        return json.dumps(rounded(tree))
    inner = margin + " "
    rows = (f'{inner}"{name}": {written(tree[name], depth - 1, inner)}' for name in tree)
    return "{\n" + ",\n".join(rows) + f"\n{margin}}}"


def main() -> None:
    """Make everything, and note what today's version says of it."""
    for name in ("texts", "stores", "models", "runs"):
        shutil.rmtree(HOME / name, ignore_errors=True)
        (HOME / name).mkdir()
    prepare()
    train()
    (HOME / "expected.json").write_text(written(expected()) + "\n")


if __name__ == "__main__":
    os.chdir(HOME)
    main()

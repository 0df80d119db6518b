"""Fixtures: small folders of every kind that regard reads, written by the commands themselves.

They are cached in build/hostile under a hash of the source code; a lock lets one of several test
processes write them.
"""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from hostile.client import TESTS, Call, Server, chown_to_nobody, environment
from labelled import columns, opinions, tagged_sentences
from toys import TINY

HOME = TESTS.parent / "build" / "hostile"
_MAX_AGE = 24 * 3600
STEPS = ["training.max_steps=4", "training.checkpoint_every=2", "training.log_every=1"]
QUIET = ["training.tensorboard=false", "training.warmup_steps=2", "data.batch_tokens=400"]
# Training data of each model kind.
KINDS = {
    "transformer": "pairs",
    "recurrent": "pairs",
    "convolutional": "pairs",
    "unilm": "pairs",
    "nonautoregressive": "aligned",
    "causal": "text",
    "masked": "text",
    "xl": "text",
    "permuted": "text",
    "tagger": "tagged",
    "classifier": "labelled",
}
PREPARE = ["--vocab-size", "300", "--source-lang", "xx"]
RECIPE = """out = "runs/recipe"
preset = "tiny"

[data]
folder = "data/pairs"
batch_tokens = 400

[model]
encoder_layers = 1
decoder_layers = 1
width = 16
heads = 2
feedforward_width = 24
dropout = 0.1

[training]
max_steps = 3
warmup_steps = 2
checkpoint_every = 2
average_last = 1
tensorboard = false
"""

SPACE = """"training.learning_rate" = { low = 1e-4, high = 1e-2, log = true }
"model.dropout" = [0.1, 0.3]
"""


def settings(*assignments: str) -> list[str]:
    """The arguments that assign settings."""
    return [argument for assignment in assignments for argument in ("--set", assignment)]


def sizes(kind: str) -> list[str]:
    """The settings of a tiny model of a kind."""
    tiny = [f"model.{name}={value}" for name, value in TINY[kind].items()]
    return settings(f"model.kind={kind}", *tiny, *STEPS, *QUIET)


def build_fixtures(server: Server) -> Path:
    """The folder of all fixtures, which are written if the code has changed."""
    HOME.mkdir(parents=True, exist_ok=True)
    folder = HOME / _fingerprint()
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            for old in HOME.iterdir():  # newer ones may be in use
                if old.is_dir() and time.time() - old.stat().st_mtime > _MAX_AGE:
                    shutil.rmtree(old)
            shutil.rmtree(HOME / "unfinished", ignore_errors=True)
            work = HOME / "unfinished" / "kit"
            work.mkdir(parents=True)
            chown_to_nobody(work)
            _write_fixtures(work, server)
            work.rename(folder)
            shutil.rmtree(work.parent)
    return folder


def _fingerprint() -> str:
    digest = hashlib.sha256()
    code = [*(TESTS.parent / "src").rglob("*.py"), Path(__file__), TESTS / "toys.py"]
    for path in sorted(code):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _write_fixtures(work: Path, server: Server) -> None:
    def regard(*arguments: str) -> None:
        outcome = server.run(Call(arguments, work))
        assert outcome.status == 0, f"regard {' '.join(arguments)}: {outcome.status}\n{outcome.err}"

    _write_texts(work / "text")
    chown_to_nobody(work.parent)
    valid = ["--valid-source", "text/valid.xx", "--valid-target", "text/valid.yy"]
    pairs = ["--source", "text/train.xx", "--target", "text/train.yy", *valid]
    regard("prepare", *pairs, *PREPARE, "--target-lang", "yy", "--out", "data/pairs")
    for content, ending in (("text", "txt"), ("tagged", "tsv"), ("labelled", "labels")):
        arguments = [f"--{content}", f"text/train.{ending}", f"--valid-{content}"]
        regard("prepare", *arguments, f"text/valid.{ending}", *PREPARE, "--out", f"data/{content}")
    shutil.copytree(work / "data/pairs", work / "data/aligned")
    chown_to_nobody(work / "data/aligned")
    regard("align", "--data", "data/aligned")
    for kind, content in KINDS.items():
        data = ["--data", f"data/{content}", "--device", "cpu"]
        regard("train", *data, "--out", f"models/{kind}", *sizes(kind))
    lora = settings("training.lora.rank=2", *STEPS, *QUIET)
    base = ["--from", "models/transformer", "--data", "data/pairs"]
    regard("train", *base, "--out", "models/adapter", *lora)
    shutil.copytree(work / "models/transformer", work / "models/listed")
    chown_to_nobody(work / "models/listed")
    regard("shortlist", "models/listed", "--data", "data/pairs")
    regard("export", "models/listed", "--to", "ctranslate2", "--out", "models/ctranslate2")
    regard("export", "models/transformer", "--to", "onnx", "--out", "models/onnx")
    shard = ["--shard", "1/2", "--chunk-size", "40", "--beam-size", "1", "--backend", "torch"]
    data = ["--data", "data/pairs", "--out", "data/distilled"]
    regard("distill", "models/transformer", *data, *shard)
    (work / "recipe.toml").write_text(RECIPE)
    (work / "space.toml").write_text(SPACE)
    regard("tune", "recipe.toml", "--space", "space.toml", "--out", "tuning", "--trials", "2")
    shutil.rmtree(work / "tuning/trials")  # is not read again
    shutil.rmtree(work / "tuning/logs")
    command = [sys.executable, "-m", "hostile.huggingface", str(work / "huggingface")]
    subprocess.run(command, check=True, env=environment(), capture_output=True)
    for path in [*work.parent.iterdir()]:
        if path.is_file():
            path.unlink()  # output of the commands


def _write_texts(folder: Path) -> None:
    folder.mkdir()
    draw = random.Random(5)
    lines = [" ".join(draw.choices("abcdefghij", k=draw.randint(2, 7))) for _ in range(220)]
    for name, part in (("train", lines[:200]), ("valid", lines[200:212]), ("test", lines[212:])):
        (folder / f"{name}.xx").write_text("".join(line + "\n" for line in part))
        (folder / f"{name}.yy").write_text("".join(line[::-1] + "\n" for line in part))
        (folder / f"{name}.txt").write_text("\n".join(line + "." for line in part) + "\n\n")
        tagged = columns(tagged_sentences(len(part), seed=len(part)))
        (folder / f"{name}.tsv").write_text(tagged)
        rows = opinions(len(part), seed=len(part))
        (folder / f"{name}.labels").write_text("".join("\t".join(row) + "\n" for row in rows))
    with gzip.open(folder / "train.xx.gz", "wt") as file:
        file.write("".join(line + "\n" for line in lines[:200]))
    arguments = [len(line.split()) for line in lines[212:]]
    gold = "".join(" ".join(f"{i}-{n - 1 - i}" for i in range(n)) + "\n" for n in arguments)
    (folder / "test.gold").write_text(gold)
    (folder / "masked.txt").write_text("a b [MASK] d\n[MASK] c\n")

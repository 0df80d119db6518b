"""fairseq 0.12.2, the last release (2022). pip from 24.1 on refuses its omegaconf 2.0."""

from __future__ import annotations

import json
from pathlib import Path

from peers.toolkit import Command, Job, Row, Toolkit, words

SHIM = (
    Path(__file__).with_name("fairseq_patch.py").read_text(encoding="utf-8")
    + """
import sys
from fairseq_cli import preprocess, train
sys.argv.pop(0)
{"preprocess": preprocess, "train": train}[sys.argv[0]].cli_main()
"""
)


def prepare(job: Job) -> list[Command]:
    """Binary files."""
    dictionary = job.work / "dictionary"
    dictionary.write_text("".join(f"{word} 1\n" for word in words(job.lesson)))
    options = {
        "source-lang": "source",
        "target-lang": "target",
        "trainpref": job.text / "train",
        "validpref": job.text / "valid",
        "srcdict": dictionary,
        "destdir": job.work / "data",
    }
    return [
        [*[job.python, "-c", SHIM, "preprocess"], *_options(options), "--joined-dictionary"],
    ]


def train(job: Job) -> Command:
    """The command of a round."""
    lesson, size = job.lesson, job.lesson.size
    options: dict[str, object] = {
        "source-lang": "source",
        "target-lang": "target",
        "arch": "transformer",
        "dropout": lesson.dropout,
        "optimizer": "adam",
        "adam-betas": "(0.9, 0.98)",
        "lr": lesson.learning_rate,
        "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": lesson.label_smoothing,
        "max-tokens": lesson.batch_tokens,
        "max-update": job.steps,
        "log-format": "json",
        "log-interval": 1,
        "num-workers": 0,
        "seed": lesson.seed,
    }
    for side in ("encoder", "decoder"):
        options |= {
            f"{side}-layers": size.layers,
            f"{side}-embed-dim": size.width,
            f"{side}-ffn-embed-dim": size.feedforward,
            f"{side}-attention-heads": size.heads,
        }
    flags = ["--share-all-embeddings", "--cpu", "--no-save", "--disable-validation"]
    data = str(job.work / "data")
    return [*[job.python, "-c", SHIM, "train", data], *_options(options), *flags]


def _options(options: dict[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def rows(log: str) -> list[Row]:
    """Words in a batch (target tokens, end marks included) and words a second."""
    told = [
        line.split(" | train_inner | ")[1] for line in log.splitlines() if "train_inner" in line
    ]
    found = [json.loads(line) for line in told]
    return [
        (float(row["wpb"]), float(row["wpb"]) / float(row["wps"]))
        for row in found
        if float(row["wps"])  # not known for the first
    ]


TOOLKIT = Toolkit(
    "fairseq", "fairseq", ["fairseq==0.12.2"], prepare=prepare, train=train, rows=rows
)

"""fairseq 0.12.2, the last release (2022). pip 24.1 and later reject its omegaconf 2.0."""

from __future__ import annotations

import json
from pathlib import Path

from peers.toolkit import Command, Job, Row, Toolkit, vocabulary_words

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
    """The command that writes binary files."""
    dictionary = job.work / "dictionary"
    dictionary.write_text("".join(f"{word} 1\n" for word in vocabulary_words(job.task)))
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
    """The training command of a round."""
    task, size = job.task, job.task.size
    options: dict[str, object] = {
        "source-lang": "source",
        "target-lang": "target",
        "arch": "transformer",
        "dropout": task.dropout,
        "optimizer": "adam",
        "adam-betas": "(0.9, 0.98)",
        "lr": task.learning_rate,
        "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": task.label_smoothing,
        "max-tokens": task.batch_tokens,
        "max-update": job.steps,
        "log-format": "json",
        "log-interval": 1,
        "num-workers": 0,
        "seed": task.seed,
    }
    for side in ("encoder", "decoder"):
        options |= {
            f"{side}-layers": size.num_layers,
            f"{side}-embed-dim": size.d_model,
            f"{side}-ffn-embed-dim": size.ffn_dim,
            f"{side}-attention-heads": size.num_heads,
        }
    flags = ["--share-all-embeddings", "--cpu", "--no-save", "--disable-validation"]
    data = str(job.work / "data")
    return [*[job.python, "-c", SHIM, "train", data], *_options(options), *flags]


def _options(options: dict[str, object]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


def rows(log: str) -> list[Row]:
    """Target tokens per batch, including EOS, and seconds, from the logged words per second."""
    lines = [line for line in log.splitlines() if "train_inner" in line]
    entries = [json.loads(line.split(" | train_inner | ")[1]) for line in lines]
    return [
        (float(entry["wpb"]), float(entry["wpb"]) / float(entry["wps"]))
        for entry in entries
        if float(entry["wps"])  # 0 for the first update
    ]


TOOLKIT = Toolkit(
    "fairseq", "fairseq", ["fairseq==0.12.2"], prepare=prepare, train=train, rows=rows
)

"""Marian (C++), by its Python package, pymarian; each of its threads has a part of the batch."""

from __future__ import annotations

import re

from peers.toolkit import Command, Job, Row, Toolkit, words

_UPDATE = re.compile(r"Up\. \d+ : .* \* ([\d,]+) @ .* : Time ([\d.]+)s")
SHIM = "import pymarian, sys; pymarian.Trainer(sys.argv[1]).train()"


def train(job: Job) -> Command:
    """The command of a round."""
    lesson, size = job.lesson, job.lesson.size
    vocabulary = job.work / "vocabulary.yml"
    marked = ["</s>", "<unk>", *words(lesson)]
    vocabulary.write_text("".join(f"{word}: {number}\n" for number, word in enumerate(marked)))
    train = job.text / "train"
    options = {
        "type": "transformer",
        "model": job.work / "model.npz",
        "train-sets": f"{train}.source {train}.target",
        "vocabs": f"{vocabulary} {vocabulary}",
        "cpu-threads": job.threads,
        "enc-depth": size.layers,
        "dec-depth": size.layers,
        "dim-emb": size.width,
        "transformer-heads": size.heads,
        "transformer-dim-ffn": size.feedforward,
        "transformer-dropout": lesson.dropout,
        "label-smoothing": lesson.label_smoothing,
        "learn-rate": lesson.learning_rate,
        "optimizer-params": "0.9 0.98 1e-09",
        "clip-norm": 0,
        "mini-batch": 10_000,
        "mini-batch-words": lesson.batch_tokens,
        "after-batches": job.steps,
        "disp-freq": 1,
        "seed": lesson.seed,
    }
    told = " ".join(f"--{name} {value}" for name, value in options.items())
    flags = "--tied-embeddings-all --disp-label-counts --no-reload"
    return [job.python, "-c", SHIM, f"{told} {flags}"]


def rows(log: str) -> list[Row]:
    """Labels, which are target tokens with end marks, and seconds."""
    found = _UPDATE.findall(log)
    return [(float(labels.replace(",", "")), float(seconds)) for labels, seconds in found]


TOOLKIT = Toolkit(
    "Marian", "pymarian", ["pymarian==1.12.42"], train=train, rows=rows, needs_torch=False
)

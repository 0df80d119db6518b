"""Marian (C++) through its Python package, pymarian; each thread processes a part of the batch."""

from __future__ import annotations

import re

from peers.toolkit import Command, Job, Row, Toolkit, vocabulary_words

_UPDATE = re.compile(r"Up\. \d+ : .* \* ([\d,]+) @ .* : Time ([\d.]+)s")
SHIM = "import pymarian, sys; pymarian.Trainer(sys.argv[1]).train()"


def train(job: Job) -> Command:
    """The training command of a round."""
    task, size = job.task, job.task.size
    vocabulary = job.work / "vocabulary.yml"
    entries = ["</s>", "<unk>", *vocabulary_words(task)]
    vocabulary.write_text("".join(f"{word}: {number}\n" for number, word in enumerate(entries)))
    train = job.text / "train"
    options = {
        "type": "transformer",
        "model": job.work / "model.npz",
        "train-sets": f"{train}.source {train}.target",
        "vocabs": f"{vocabulary} {vocabulary}",
        "cpu-threads": job.threads,
        "enc-depth": size.num_layers,
        "dec-depth": size.num_layers,
        "dim-emb": size.d_model,
        "transformer-heads": size.num_heads,
        "transformer-dim-ffn": size.ffn_dim,
        "transformer-dropout": task.dropout,
        "label-smoothing": task.label_smoothing,
        "learn-rate": task.learning_rate,
        "optimizer-params": "0.9 0.98 1e-09",
        "clip-norm": 0,
        "mini-batch": 10_000,
        "mini-batch-words": task.batch_tokens,
        "after-batches": job.steps,
        "disp-freq": 1,
        "seed": task.seed,
    }
    arguments = " ".join(f"--{name} {value}" for name, value in options.items())
    flags = "--tied-embeddings-all --disp-label-counts --no-reload"
    return [job.python, "-c", SHIM, f"{arguments} {flags}"]


def rows(log: str) -> list[Row]:
    """Labels, which are target tokens including EOS, and seconds."""
    updates = _UPDATE.findall(log)
    return [(float(labels.replace(",", "")), float(seconds)) for labels, seconds in updates]


TOOLKIT = Toolkit(
    "Marian", "pymarian", ["pymarian==1.12.42"], train=train, rows=rows, needs_torch=False
)

"""Sockeye 3.1.34, the last release (2023).

It requires torch < 1.14 but runs with newer versions, so its other dependencies are installed
separately. Its log counts padded source tokens every 50 updates; `SHIM` prints the number of
target tokens without padding at each update.
"""

from __future__ import annotations

from peers import joeynmt
from peers.toolkit import Command, Job, Toolkit

SHIM = """
import time
from sockeye import constants, data_io, train, training

create = data_io.create_batch_from_parallel_sample
last = []

def counted(*sides, **more):
    batch = create(*sides, **more)
    labels = batch.labels[constants.TARGET_LABEL_NAME]
    batch.tokens = int((labels != constants.PAD_ID).sum())
    return batch

def report(self, epoch, batches, updates, samples, tokens, metrics=None):
    if last:
        print("counted", tokens, time.time() - last.pop(), flush=True)
    last.append(time.time())

data_io.create_batch_from_parallel_sample = counted
training.Speedometer.__call__ = report
train.main()
"""


def prepare(job: Job) -> list[Command]:
    """The command that writes binary files; the vocabulary has the words of the text only."""
    text = ["-s", str(job.text / "train.source"), "-t", str(job.text / "train.target")]
    out = ["--shared-vocab", "--output", str(job.work / "data")]
    return [[job.python, "-m", "sockeye.prepare_data", *text, *out]]


def train(job: Job) -> Command:
    """The training command of a round."""
    task, size = job.task, job.task.size
    options = {
        "prepared-data": job.work / "data",
        "validation-source": job.text / "valid.source",
        "validation-target": job.text / "valid.target",
        "output": job.work / "model",
        "num-layers": f"{size.num_layers}:{size.num_layers}",
        "transformer-model-size": size.d_model,
        "transformer-attention-heads": size.num_heads,
        "transformer-feed-forward-num-hidden": size.ffn_dim,
        "transformer-preprocess": "",
        "transformer-postprocess": "drn",  # dropout, residual, norm
        "weight-tying-type": "src_trg_softmax",
        "batch-type": "word",
        "batch-size": task.batch_tokens,
        "batch-sentences-multiple-of": 1,
        "label-smoothing": task.label_smoothing,
        "embed-dropout": task.dropout,
        "transformer-dropout-prepost": task.dropout,
        "transformer-dropout-attention": 0,
        "transformer-dropout-act": 0,
        "optimizer": "adam",
        "optimizer-betas": "0.9:0.98",
        "initial-learning-rate": task.learning_rate,
        "learning-rate-scheduler-type": "none",
        "gradient-clipping-type": "none",
        "max-updates": job.steps,
        "checkpoint-interval": 1_000_000,
        "decode-and-evaluate": 0,
        "seed": task.seed,
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [job.python, "-c", SHIM, *arguments, "--overwrite-output", "--use-cpu"]


TOOLKIT = Toolkit(
    "Sockeye",
    "sockeye",
    ["--no-deps sockeye==3.1.34", "pyyaml numpy<2 sacrebleu"],
    prepare=prepare,
    train=train,
    rows=joeynmt.rows,
)

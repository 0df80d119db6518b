"""JoeyNMT 2.3. It wants importlib_metadata, which it does not ask for, and drops activations too.

It does not sort sentences by length, so about half of its batches is padding, and they hold fewer
real tokens than those of others. Its log tells tokens a second, but not how many tokens; `SHIM`
writes both beside it.
"""

from __future__ import annotations

import json
import re

from peers.toolkit import Command, Job, Row, Toolkit

_COUNTED = re.compile(r"^counted (\d+) ([\d.e-]+)$", re.MULTILINE)
SHIM = """
from joeynmt import __main__, training

log_scores = training.TrainManager._log_scores

def counted(self, epoch_no, elapsed_time, start_tokens, *more):
    print("counted", self.stats.total_tokens - start_tokens, elapsed_time, flush=True)
    log_scores(self, epoch_no, elapsed_time, start_tokens, *more)

training.TrainManager._log_scores = counted
__main__.main()
"""


def train(job: Job) -> Command:
    """The command of a round."""
    path = job.work / "config.yaml"
    tree = {
        "name": "contest",
        "model_dir": str(job.work / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": job.lesson.seed,
        "data": _data(job),
        "model": _model(job),
        "training": _training(job),
        "testing": {"batch_size": 4096, "batch_type": "token", "beam_size": 1},
    }
    path.write_text(json.dumps(tree))  # JSON is YAML
    return [job.python, "-c", SHIM, "train", str(path), "--skip-test"]


def _data(job: Job) -> dict[str, object]:
    sides = {
        name: {
            "lang": language,
            "level": "word",
            "max_length": 200,
            "lowercase": False,
            "voc_limit": job.lesson.vocabulary,
            "voc_file": str(job.text / "words"),
        }
        for name, language in (("src", "source"), ("trg", "target"))
    }
    marks = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    symbols: dict[str, object] = {f"{name}_token": mark for name, mark in marks.items()}
    symbols |= {f"{name}_id": number for number, name in enumerate(marks)}
    return {
        "train": str(job.text / "train"),
        "dev": str(job.text / "valid"),
        "dataset_type": "plain",
        **sides,
        "special_symbols": symbols,
    }


def _model(job: Job) -> dict[str, object]:
    lesson, size = job.lesson, job.lesson.size
    side = {
        "type": "transformer",
        "num_layers": size.layers,
        "num_heads": size.heads,
        "embeddings": {"embedding_dim": size.width, "scale": True, "dropout": lesson.dropout},
        "hidden_size": size.width,
        "ff_size": size.feedforward,
        "dropout": lesson.dropout,
        "layer_norm": "post",
        "activation": "relu",
    }
    start = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    tied = {"tied_embeddings": True, "tied_softmax": True}
    return {**start, **tied, "encoder": side, "decoder": side}


def _training(job: Job) -> dict[str, object]:
    lesson = job.lesson
    return {
        "loss": "crossentropy",
        "normalization": "tokens",
        "label_smoothing": lesson.label_smoothing,
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "learning_rate": lesson.learning_rate,
        "learning_rate_min": 0.0,
        "scheduling": "decaying",  # at the end of an epoch, which no round reaches
        "batch_size": lesson.batch_tokens,
        "batch_type": "token",
        "epochs": 100,
        "updates": job.steps,
        "shuffle": True,
        "logging_freq": 1,
        "validation_freq": 1_000_000,
        "early_stopping_metric": "bleu",
        "overwrite": True,
        "print_valid_sents": [],
    }


def rows(log: str) -> list[Row]:
    """Target tokens, end marks included, and seconds."""
    return [(float(tokens), float(seconds)) for tokens, seconds in _COUNTED.findall(log)]


TOOLKIT = Toolkit("JoeyNMT", "joeynmt", ["joeynmt importlib_metadata"], train=train, rows=rows)

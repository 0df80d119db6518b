"""JoeyNMT 2.3. It needs importlib_metadata, an undeclared dependency.

It also applies dropout to activations. It does not sort sentences by length, so about half of a
batch is padding, and its batches have fewer real tokens than those of others. Its log has tokens
per second, but not the number of tokens; `SHIM` prints the number of tokens and the seconds.
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
    """The training command of a round."""
    path = job.work / "config.yaml"
    tree = {
        "name": "comparison",
        "model_dir": str(job.work / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": job.task.seed,
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
            "voc_limit": job.task.vocabulary,
            "voc_file": str(job.text / "words"),
        }
        for name, language in (("src", "source"), ("trg", "target"))
    }
    tokens = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    symbols: dict[str, object] = {f"{name}_token": token for name, token in tokens.items()}
    symbols |= {f"{name}_id": number for number, name in enumerate(tokens)}
    return {
        "train": str(job.text / "train"),
        "dev": str(job.text / "valid"),
        "dataset_type": "plain",
        **sides,
        "special_symbols": symbols,
    }


def _model(job: Job) -> dict[str, object]:
    task, size = job.task, job.task.size
    side = {
        "type": "transformer",
        "num_layers": size.num_layers,
        "num_heads": size.num_heads,
        "embeddings": {"embedding_dim": size.d_model, "scale": True, "dropout": task.dropout},
        "hidden_size": size.d_model,
        "ff_size": size.ffn_dim,
        "dropout": task.dropout,
        "layer_norm": "post",
        "activation": "relu",
    }
    initializers = {"initializer": "xavier_uniform", "embed_initializer": "xavier_uniform"}
    tied = {"tied_embeddings": True, "tied_softmax": True}
    return {**initializers, **tied, "encoder": side, "decoder": side}


def _training(job: Job) -> dict[str, object]:
    task = job.task
    return {
        "loss": "crossentropy",
        "normalization": "tokens",
        "label_smoothing": task.label_smoothing,
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "learning_rate": task.learning_rate,
        "learning_rate_min": 0.0,
        "scheduling": "decaying",  # after each epoch, which is longer than a round
        "batch_size": task.batch_tokens,
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
    """Target tokens, including EOS, and seconds."""
    return [(float(tokens), float(seconds)) for tokens, seconds in _COUNTED.findall(log)]


TOOLKIT = Toolkit("JoeyNMT", "joeynmt", ["joeynmt importlib_metadata"], train=train, rows=rows)

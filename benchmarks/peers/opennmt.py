"""OpenNMT-py 3.5.1, the last release (2024); its successor is eole.

It requires torch < 2.3 but runs with newer versions, so its other dependencies are installed
separately. It supports only pre-norm models, and also applies dropout to activations.
"""

from __future__ import annotations

import json
import re

from peers.toolkit import Command, Job, Row, Toolkit

_STEP = re.compile(r"Step +\d+/.*; bsz: *\d+/ *(\d+)/ *\d+; *\d+/ *(\d+) tok/s")
_DEPENDENCIES = (
    "configargparse ctranslate2<5,>=4 tensorboard flask waitress pyonmttok<2,>=1.37 pyyaml "
    "sacrebleu rapidfuzz pyahocorasick fasttext-wheel spacy six"
)


def train(job: Job) -> Command:
    """The training command of a round."""
    size = job.task.size
    model = {
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": size.num_layers,
        "dec_layers": size.num_layers,
        "heads": size.num_heads,
        "hidden_size": size.d_model,
        "word_vec_size": size.d_model,
        "transformer_ff": size.ffn_dim,
        "position_encoding": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "param_init": 0,
        "param_init_glorot": True,
    }
    path = job.work / "config.yaml"
    output = {"save_model": str(job.work / "model")}
    path.write_text(json.dumps({**data(job), **model, **training(job), **output}))  # JSON is YAML
    return [str(job.bin / "onmt_train"), "-config", str(path)]


def data(job: Job) -> dict[str, object]:
    """Data options, which eole shares."""
    words, size = str(job.text / "words"), job.task.vocabulary
    train = job.text / "train"
    return {
        "data": {"train": {"path_src": f"{train}.source", "path_tgt": f"{train}.target"}},
        "save_data": str(job.work),
        "src_vocab": words,
        "tgt_vocab": words,
        "src_vocab_size": size,
        "tgt_vocab_size": size,
        "share_vocab": True,
        "report_every": 1,
        "seed": job.task.seed,
    }


def training(job: Job) -> dict[str, object]:
    """Training options, which eole shares."""
    never = 1_000_000
    return {
        "train_steps": job.steps,
        "valid_steps": never,
        "save_checkpoint_steps": never,
        "num_workers": 0,
        "bucket_size": 30_000,
        "batch_type": "tokens",
        "batch_size": job.task.batch_tokens,
        "batch_size_multiple": 1,
        "normalization": "tokens",
        "dropout": [job.task.dropout],
        "attention_dropout": [0.0],
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": job.task.learning_rate,
        "label_smoothing": job.task.label_smoothing,
        "max_grad_norm": 0,
    }


def rows(log: str) -> list[Row]:
    """Target tokens per batch, including EOS, and seconds, from the logged tokens per second."""
    steps = [(float(tokens), float(speed)) for tokens, speed in _STEP.findall(log)]
    return [(tokens, tokens / speed) for tokens, speed in steps]


TOOLKIT = Toolkit(
    "OpenNMT-py",
    "OpenNMT-py",
    ["--no-deps OpenNMT-py==3.5.1", _DEPENDENCIES],
    train=train,
    rows=rows,
)

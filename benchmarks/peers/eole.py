"""eole, the successor of OpenNMT-py. Its command also wants aiohttp, which it does not ask for."""

from __future__ import annotations

import json

from peers import opennmt
from peers.toolkit import Command, Job, Toolkit


def train(job: Job) -> Command:
    """The command of a round."""
    size = job.lesson.size
    model = {
        "architecture": "transformer",
        "layers": size.layers,
        "heads": size.heads,
        "hidden_size": size.width,
        "transformer_ff": size.feedforward,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "embeddings": {
            "word_vec_size": size.width,
            "position_encoding_type": "SinusoidalInterleaved",
        },
    }
    training = {
        **opennmt.training(job),
        "model_path": str(job.work / "model"),
        "world_size": 1,
        "gpu_ranks": [],
        "compute_dtype": "fp32",
    }
    path = job.work / "config.yaml"
    tree = {**opennmt.data(job), "overwrite": True, "training": training, "model": model}
    path.write_text(json.dumps(tree))  # JSON is YAML
    return [str(job.bin / "eole"), "train", "-config", str(path)]


TOOLKIT = Toolkit("eole", "eole", ["eole aiohttp"], train=train, rows=opennmt.rows)

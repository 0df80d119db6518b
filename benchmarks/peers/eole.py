"""eole, the successor of OpenNMT-py. It needs aiohttp, an undeclared dependency."""

from __future__ import annotations

import json

from peers import opennmt
from peers.toolkit import Command, Job, Toolkit


def train(job: Job) -> Command:
    """The training command of a round."""
    size = job.task.size
    model = {
        "architecture": "transformer",
        "layers": size.num_layers,
        "heads": size.num_heads,
        "hidden_size": size.d_model,
        "transformer_ff": size.ffn_dim,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "embeddings": {
            "word_vec_size": size.d_model,
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

"""eole with its inference engine, as in `eole predict`.

Like OpenNMT-py, it appends no EOS to a source, so EOS is part of its input, and it supports only
pre-norm models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from eole.config.run import PredictConfig
from eole.inference_engine import InferenceEnginePY
from safetensors.torch import save_file

from decoders import token_words
from decoders.weights import (
    Stack,
    embedding_tables,
    position_table,
    read_weights,
    rename_weights,
    require_supported,
)
from decoding_task import DecodingTask

READS_TEXT = False
BATCH_SIZES = (200, 100)  # sentences, for greedy and for beam search
SPECIAL_TOKENS = ["<blank>", "<unk>", "<s>", "</s>"]
_BLOCK = {
    "self.query": "self_attn.linear_query",
    "self.key": "self_attn.linear_keys",
    "self.value": "self_attn.linear_values",
    "self.combine": "self_attn.final_linear",
    "self.norm": "input_layernorm",
    "cross.query": "context_attn.linear_query",
    "cross.key": "context_attn.linear_keys",
    "cross.value": "context_attn.linear_values",
    "cross.combine": "context_attn.final_linear",
    "cross.norm": "precontext_layernorm",
    "expand": "mlp.gate_up_proj",
    "contract": "mlp.down_proj",
    "feedforward.norm": "post_attention_layernorm",
}


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function; the model is loaded from a folder in eole's format."""
    require_supported(task.config, norm_order="pre")
    folder = task.make_folder("eole")
    write_folder(folder, task)
    config = PredictConfig(
        model_path=str(folder),
        src="none",
        beam_size=task.beam_size,
        batch_size=task.choose_batch_size(*BATCH_SIZES),
        world_size=1,
        gpu_ranks=[],
        compute_dtype="fp32",
    )
    translator = InferenceEnginePY(config)

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        lines = [f"{token_words.to_text(ids)} </s>".strip() for ids in sentences]
        _, _, hypotheses = translator.infer_list(lines)
        return [token_words.to_ids(best) for best, *_ in hypotheses]

    return translate


def write_folder(folder: Path, task: DecodingTask) -> None:
    """Write the weights as a model folder of eole."""
    ours = read_weights(task.weights)
    source, target, output = embedding_tables(ours)
    model = rename_weights(
        ours,
        encoder=Stack("encoder.transformer_layers", "encoder.layer_norm", _BLOCK),
        decoder=Stack("decoder.transformer_layers", "decoder.layer_norm", _BLOCK),
    )
    pe = torch.from_numpy(position_table(task.config, 5000)).unsqueeze(1)
    for side, table in (("src", source), ("tgt", target)):
        model[f"{side}_emb.embeddings.weight"] = table
        model[f"{side}_emb.pe.pe"] = pe
    for number in range(task.config["num_decoder_layers"]):
        model[f"decoder.transformer_layers.{number}.layer_scalar"] = torch.ones(1)
    model |= {"generator.weight": output, "generator.bias": torch.zeros(len(output))}
    save_file({n: tensor.clone() for n, tensor in model.items()}, folder / "model.00.safetensors")
    vocabulary = token_words.vocabulary(task.vocabulary, SPECIAL_TOKENS)
    kinds = ["pad", "unk", "bos", "eos"]
    specials = {f"{kind}_token": token for kind, token in zip(kinds, SPECIAL_TOKENS, strict=True)}
    vocabularies = {"src": vocabulary, "tgt": vocabulary}
    tree = {**vocabularies, "decoder_start_token": "<s>", "specials": specials}
    (folder / "vocab.json").write_text(json.dumps(tree))
    (folder / "config.json").write_text(json.dumps(_config(task)))


def _config(task: DecodingTask) -> dict[str, Any]:
    config = task.config
    size = {
        "heads": config["num_heads"],
        "hidden_size": config["d_model"],
        "transformer_ff": config["ffn_dim"],
        "mlp_activation_fn": config["activation"],
        "add_qkvbias": True,
        "add_ffnbias": True,
    }
    d_model, encoding = config["d_model"], {"position_encoding_type": "SinusoidalInterleaved"}
    model = {
        "architecture": "transformer",
        **size,
        **encoding,
        "encoder": {
            "encoder_type": "transformer",
            "layers": config["num_encoder_layers"],
            "src_word_vec_size": d_model,
            **size,
            **encoding,
        },
        "decoder": {
            "decoder_type": "transformer",
            "layers": config["num_decoder_layers"],
            "tgt_word_vec_size": d_model,
            "with_cross_attn": True,
            **size,
            **encoding,
        },
        "embeddings": {"src_word_vec_size": d_model, "tgt_word_vec_size": d_model, **encoding},
    }
    required = {"src_vocab": "none", "training": {"compute_dtype": "torch.float32"}}
    return {"model": model, "share_vocab": True, **required}

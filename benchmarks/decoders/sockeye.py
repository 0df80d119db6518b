"""Sockeye 3.1.34 with its `Translator`, as in `sockeye-translate`.

Its attention has no biases and its sinusoids have another layout, so both are replaced by
regard's; it interleaves keys and values, so their biases are interleaved here. Its special tokens
have the same ids as regard's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from sockeye import constants, inference
from sockeye.data_io import DataConfig, DataStatistics
from sockeye.encoder import EmbeddingConfig
from sockeye.layers import MultiHeadAttentionBase
from sockeye.model import ModelConfig, SockeyeModel
from sockeye.transformer import TransformerConfig
from torch import Tensor, nn

from decoders import token_words
from decoders.weights import (
    Weights,
    embedding_tables,
    position_table,
    read_weights,
    require_supported,
)
from decoding_task import DecodingTask

READS_TEXT = False
BATCH_SIZES = (200, 100)  # sentences, for greedy and for beam search
_MAX_POSITIONS = 1024
# regard's layers and Sockeye's: queries, keys and values are one matrix in the same order.
_BLOCK = {
    "cross.query": "enc_attention.ff_q",
    "cross.memory": "enc_attention.ff_kv",
    "cross.combine": "enc_attention.ff_out",
    "cross_residual.norm": "{when}_enc_attention.layer_norm",
    "feedforward.expand": "ff.ff1",
    "feedforward.contract": "ff.ff2",
    "feedforward_residual.norm": "{when}_ff.layer_norm",
}


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function of a Sockeye model with regard's weights."""
    require_supported(task.config, tied_embeddings="all")
    vocabulary = {
        word: number for number, word in enumerate(token_words.vocabulary(task.vocabulary))
    }
    translator = inference.Translator(
        device=torch.device("cpu"),
        ensemble_mode="linear",
        scorer=inference.CandidateScorer(1.0, 0.0, 0.0),
        batch_size=task.choose_batch_size(*BATCH_SIZES),
        beam_search_stop=constants.BEAM_SEARCH_STOP_ALL,
        models=[_model(task)],
        source_vocabs=[vocabulary],
        target_vocabs=[vocabulary],
        beam_size=task.beam_size,
        greedy=False,  # greedy search has no batches, a beam of 1 has
        output_scores=task.beam_size > 1,
        constant_length_ratio=-1.0,  # none
        max_output_length_num_stds=-1,  # twice the input
    )

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        inputs = [
            inference.TranslatorInput(number, token_words.to_text(ids).split())
            for number, ids in enumerate(sentences)
        ]
        outputs = translator.translate(inputs)
        return [token_words.to_ids(output.translation) for output in outputs]

    return translate


def _model(task: DecodingTask) -> Any:
    model = SockeyeModel(_config(task), inference_only=True)
    weights = _weights(task)
    biases = {
        name.removesuffix(".bias"): weights.pop(name)
        for name in list(weights)
        if name.endswith((".ff_in.bias", ".ff_out.bias", ".ff_q.bias", ".ff_kv.bias"))
    }
    model.load_state_dict(weights)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-5
    model.eval()  # interleaves keys and values
    for name, module in model.named_modules():
        if isinstance(module, MultiHeadAttentionBase):
            for layer, linear in module.named_children():
                if isinstance(linear, nn.Linear):
                    bias = biases.pop(f"{name}.{layer}")
                    linear.bias = nn.Parameter(_interleaved(layer, bias, module.heads))
    assert not biases, biases.keys()
    return model


def _interleaved(layer: str, bias: Tensor, heads: int) -> Tensor:
    """The bias with the keys and values of each head next to each other."""
    if layer not in ("ff_in", "ff_kv"):
        return bias
    queries = bias[: len(bias) // 3] if layer == "ff_in" else bias[:0]
    both = bias[len(queries) :].unflatten(0, (2, heads, -1)).transpose(0, 1)
    return torch.cat([queries, both.flatten()])


def _weights(task: DecodingTask) -> Weights:
    ours = read_weights(task.weights)
    source, target, output = embedding_tables(ours)
    positions = torch.from_numpy(position_table(task.config, _MAX_POSITIONS))
    weights = {
        "embedding_source.embedding.weight": source,
        "embedding_target.embedding.weight": target,
        "output_layer.weight": output,
        "output_layer.bias": torch.zeros(len(output)),
        "encoder.pos_embedding.weight": positions,
        "decoder.pos_embedding.weight": positions,
    }
    when = "pre" if task.config["norm_order"] == "pre" else "post"
    for name, tensor in ours.items():
        stack, *path, kind = name.split(".")
        if path[:1] == ["blocks"]:
            layer = _layers(stack)[".".join(path[2:])].format(when=when)
            weights[f"{stack}.layers.{path[1]}.{layer}.{kind}"] = tensor
        elif path == ["norm"]:
            weights[f"{stack}.final_process.layer_norm.{kind}"] = tensor
    return weights


def _layers(stack: str) -> dict[str, str]:
    name = {"encoder": "self_attention", "decoder": "autoregr_layer"}[stack]
    return _BLOCK | {
        "attention.project": f"{name}.ff_in",
        "attention.combine": f"{name}.ff_out",
        "attention_residual.norm": f"{{when}}_{name}.layer_norm",
    }


def _config(task: DecodingTask) -> ModelConfig:
    config = task.config
    first = config["norm_order"] == "pre"
    size = task.vocabulary

    def stack(layers: int) -> TransformerConfig:
        return TransformerConfig(
            model_size=config["d_model"],
            attention_heads=config["num_heads"],
            feed_forward_num_hidden=config["ffn_dim"],
            act_type=config["activation"],
            num_layers=layers,
            dropout_attention=0.0,
            dropout_act=0.0,
            dropout_prepost=0.0,
            positional_embedding_type="fixed",
            preprocess_sequence="n" if first else "",
            postprocess_sequence="r" if first else "rn",
            max_seq_len_source=_MAX_POSITIONS,
            max_seq_len_target=_MAX_POSITIONS,
            depth_key_value=config["d_model"],
        )

    none = [0] * 8
    data = DataConfig(
        DataStatistics(*none, size, size, 1.0, 0.0, [], [], []),
        _MAX_POSITIONS,
        _MAX_POSITIONS,
        1,
        1,
    )
    embedding = EmbeddingConfig(size, config["d_model"], 0.0)
    layers = config["num_encoder_layers"], config["num_decoder_layers"]
    return ModelConfig(data, size, size, embedding, embedding, *map(stack, layers))

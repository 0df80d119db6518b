"""Sockeye 3.1.34 by its own `Translator`, the one behind `sockeye-translate`.

Its attention has no biases and its sinusoids come in halves, so both are put in from ours; it
interleaves keys and values, and so their biases are interleaved here. Its marks have our ids.
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

from decoders import words
from decoders.weights import Weights, positions, read, require, tables
from exercise import Exercise

READS_TEXT = False
BATCHES = (200, 100)  # sentences at once, greedily and with beams
_LONGEST = 1024
# Our layers and its: queries, keys and values lie in one matrix, in the same order.
_BLOCK = {
    "cross.query": "enc_attention.ff_q",
    "cross.memory": "enc_attention.ff_kv",
    "cross.combine": "enc_attention.ff_out",
    "cross_residual.norm": "{when}_enc_attention.layer_norm",
    "feedforward.expand": "ff.ff1",
    "feedforward.contract": "ff.ff2",
    "feedforward_residual.norm": "{when}_ff.layer_norm",
}


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A model of its own kind, with our weights."""
    require(exercise.config, tied_embeddings="all")
    vocabulary = {word: number for number, word in enumerate(words.vocabulary(exercise.vocabulary))}
    translator = inference.Translator(
        device=torch.device("cpu"),
        ensemble_mode="linear",
        scorer=inference.CandidateScorer(1.0, 0.0, 0.0),
        batch_size=exercise.at_once(*BATCHES),
        beam_search_stop=constants.BEAM_SEARCH_STOP_ALL,
        models=[_model(exercise)],
        source_vocabs=[vocabulary],
        target_vocabs=[vocabulary],
        beam_size=exercise.beam_size,
        greedy=False,  # that one takes one sentence at a time, a beam of 1 takes batches
        output_scores=exercise.beam_size > 1,
        constant_length_ratio=-1.0,  # none
        max_output_length_num_stds=-1,  # twice the input
    )

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        given = [
            inference.TranslatorInput(number, words.text(ids).split())
            for number, ids in enumerate(sentences)
        ]
        return [words.ids(found.translation) for found in translator.translate(given)]

    return translate


def _model(exercise: Exercise) -> Any:
    model = SockeyeModel(_config(exercise), inference_only=True)
    weights = _weights(exercise)
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
    """Of each head, first the keys, then the values."""
    if layer not in ("ff_in", "ff_kv"):
        return bias
    queries = bias[: len(bias) // 3] if layer == "ff_in" else bias[:0]
    both = bias[len(queries) :].unflatten(0, (2, heads, -1)).transpose(0, 1)
    return torch.cat([queries, both.flatten()])


def _weights(exercise: Exercise) -> Weights:
    ours = read(exercise.weights)
    source, target, output = tables(ours)
    places = torch.from_numpy(positions(exercise.config, _LONGEST))
    found = {
        "embedding_source.embedding.weight": source,
        "embedding_target.embedding.weight": target,
        "output_layer.weight": output,
        "output_layer.bias": torch.zeros(len(output)),
        "encoder.pos_embedding.weight": places,
        "decoder.pos_embedding.weight": places,
    }
    when = "pre" if exercise.config["norm_order"] == "pre" else "post"
    for name, tensor in ours.items():
        stack, *path, kind = name.split(".")
        if path[:1] == ["blocks"]:
            layer = _layers(stack)[".".join(path[2:])].format(when=when)
            found[f"{stack}.layers.{path[1]}.{layer}.{kind}"] = tensor
        elif path == ["norm"]:
            found[f"{stack}.final_process.layer_norm.{kind}"] = tensor
    return found


def _layers(stack: str) -> dict[str, str]:
    own = {"encoder": "self_attention", "decoder": "autoregr_layer"}[stack]
    return _BLOCK | {
        "attention.project": f"{own}.ff_in",
        "attention.combine": f"{own}.ff_out",
        "attention_residual.norm": f"{{when}}_{own}.layer_norm",
    }


def _config(exercise: Exercise) -> ModelConfig:
    config = exercise.config
    first = config["norm_order"] == "pre"
    size = exercise.vocabulary

    def stack(layers: int) -> TransformerConfig:
        return TransformerConfig(
            model_size=config["width"],
            attention_heads=config["heads"],
            feed_forward_num_hidden=config["feedforward_width"],
            act_type=config["activation"],
            num_layers=layers,
            dropout_attention=0.0,
            dropout_act=0.0,
            dropout_prepost=0.0,
            positional_embedding_type="fixed",
            preprocess_sequence="n" if first else "",
            postprocess_sequence="r" if first else "rn",
            max_seq_len_source=_LONGEST,
            max_seq_len_target=_LONGEST,
            depth_key_value=config["width"],
        )

    none = [0] * 8
    data = DataConfig(
        DataStatistics(*none, size, size, 1.0, 0.0, [], [], []), _LONGEST, _LONGEST, 1, 1
    )
    embedding = EmbeddingConfig(size, config["width"], 0.0)
    layers = config["encoder_layers"], config["decoder_layers"]
    return ModelConfig(data, size, size, embedding, embedding, *map(stack, layers))

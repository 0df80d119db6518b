"""HuggingFace's `generate` with regard's weights: Marian for post-norm, Pegasus for pre-norm.

Both are BART with sinusoidal positions and differ only in the norm order. Sentences are tokenized,
sorted by length and padded here, as is usual for `generate` on a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

from decoders.bart_names import BLOCK
from decoders.ours import load_or_initialize
from decoders.weights import (
    Stack,
    Weights,
    embedding_tables,
    position_table,
    rename_weights,
    require_supported,
)
from decoding_task import DecodingTask
from regard.models.folder import ModelFolder, named_weights
from regard.text.special import SPECIAL

READS_TEXT = True
BATCH_SIZES = (128, 64)  # sentences, for greedy and for beam search
_MAX_POSITIONS = 1024


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[Any]], list[Any]]:
    """A translation function of text, or of ids if synthetic; the variant is a KV cache kind."""
    require_supported(task.config, tied_embeddings="all")
    model = _model(task)

    def search(sentences: Sequence[list[int]]) -> list[list[int]]:
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]), reverse=True)
        size = task.choose_batch_size(*BATCH_SIZES)
        translations: dict[int, list[int]] = {}
        for begin in range(0, len(order), size):
            chunk = order[begin : begin + size]
            outputs = _generate(model, [sentences[i] for i in chunk], task, variant)
            translations.update(zip(chunk, outputs, strict=True))
        return [translations[i] for i in range(len(sentences))]

    if task.lines is None or task.folder is None:
        return search
    tokenizers = ModelFolder.read(Path(task.folder)).tokenizers

    def translate(lines: Sequence[str]) -> list[str]:
        outputs = search([tokenizers.source.encode(line) for line in lines])
        return [tokenizers.target.decode(ids) for ids in outputs]

    return translate


@torch.inference_mode()
def _generate(
    model: Any, sentences: Sequence[list[int]], task: DecodingTask, variant: str
) -> list[list[int]]:
    longest = max(map(len, sentences)) + 1
    rows = [[*ids, SPECIAL.eos] for ids in sentences]
    padded = [[*row, *[SPECIAL.pad] * (longest - len(row))] for row in rows]
    source = torch.tensor(padded, device=task.device)
    limits = {"max_new_tokens": 2 * longest + 20}
    if task.forced_length is not None:
        limits = {"min_new_tokens": task.forced_length, "max_new_tokens": task.forced_length}
    outputs = model.generate(
        input_ids=source,
        attention_mask=(source != SPECIAL.pad).long(),
        num_beams=task.beam_size,
        do_sample=False,
        length_penalty=1.0,
        early_stopping=bool(task.patience),
        cache_implementation=variant or None,
        **limits,
    )
    return [_truncate_at_eos(row) for row in outputs[:, 1:].tolist()]


def _truncate_at_eos(row: list[int]) -> list[int]:
    return row[: row.index(SPECIAL.eos)] if SPECIAL.eos in row else row


def _model(task: DecodingTask) -> Any:
    config = task.config
    first = config["norm_order"] == "pre"
    shape = {
        "vocab_size": task.vocabulary,
        "d_model": config["d_model"],
        "encoder_layers": config["num_encoder_layers"],
        "decoder_layers": config["num_decoder_layers"],
        "encoder_attention_heads": config["num_heads"],
        "decoder_attention_heads": config["num_heads"],
        "encoder_ffn_dim": config["ffn_dim"],
        "decoder_ffn_dim": config["ffn_dim"],
        "activation_function": config["activation"],
        "scale_embedding": config["scale_embedding"],
        "max_position_embeddings": _MAX_POSITIONS,
        "pad_token_id": SPECIAL.pad,
        "bos_token_id": SPECIAL.bos,
        "eos_token_id": SPECIAL.eos,
        "decoder_start_token_id": getattr(SPECIAL, config["decoder_start_token"]),
        "forced_eos_token_id": None,
    }
    model: Any = (
        PegasusForConditionalGeneration(PegasusConfig(**shape))
        if first
        else MarianMTModel(MarianConfig(**shape))
    )
    missing, extra = model.load_state_dict(_weights(task), strict=False)
    assert not extra, extra
    assert set(missing) <= {"final_logits_bias", "model.shared.weight"}, missing
    model.to(task.device, torch.bfloat16 if task.use_bfloat16 else torch.float32)
    return model.eval()


def _weights(task: DecodingTask) -> Weights:
    ours = named_weights(load_or_initialize(task))
    weights = rename_weights(
        ours,
        encoder=Stack("model.encoder.layers", "model.encoder.layer_norm", BLOCK),
        decoder=Stack("model.decoder.layers", "model.decoder.layer_norm", BLOCK),
    )
    names = ["model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"]
    for name, table in zip(names, embedding_tables(ours), strict=True):
        weights[f"{name}.weight"] = table
    for side in ("encoder", "decoder"):
        positions = torch.from_numpy(position_table(task.config, _MAX_POSITIONS))
        weights[f"model.{side}.embed_positions.weight"] = positions
    return weights

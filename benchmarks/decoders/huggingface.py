"""HuggingFace's `generate` on our weights: Marian for post-norm, Pegasus for pre-norm.

Both are BART with sinusoids; they only differ in where the norms stand. Sentences are cut into
subwords, sorted by length and padded here, as everybody does who uses `generate` on a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

from decoders.bart_names import BLOCK
from decoders.ours import random_or_stored
from decoders.weights import Stack, Weights, positions, renamed, require, tables
from exercise import Exercise
from regard.models.folder import ModelFolder, weights_of
from regard.text.special import SPECIAL

READS_TEXT = True
BATCHES = (128, 64)  # sentences at once, greedily and with beams
_LONGEST = 1024


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Text to text, or ids to ids where sentences are made up; the form is a kind of cache."""
    require(exercise.config, tied_embeddings="all")
    model = _model(exercise)

    def search(sentences: Sequence[list[int]]) -> list[list[int]]:
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]), reverse=True)
        size = exercise.at_once(*BATCHES)
        found: dict[int, list[int]] = {}
        for begin in range(0, len(order), size):
            chunk = order[begin : begin + size]
            written = _generated(model, [sentences[i] for i in chunk], exercise, form)
            found.update(zip(chunk, written, strict=True))
        return [found[i] for i in range(len(sentences))]

    if exercise.lines is None or exercise.folder is None:
        return search
    tokenizers = ModelFolder.read(Path(exercise.folder)).tokenizers

    def translate(lines: Sequence[str]) -> list[str]:
        written = search([tokenizers.source.encode(line) for line in lines])
        return [tokenizers.target.decode(ids) for ids in written]

    return translate


@torch.inference_mode()
def _generated(
    model: Any, sentences: Sequence[list[int]], exercise: Exercise, form: str
) -> list[list[int]]:
    longest = max(map(len, sentences)) + 1
    rows = [[*ids, SPECIAL.end] for ids in sentences]
    padded = [[*row, *[SPECIAL.pad] * (longest - len(row))] for row in rows]
    source = torch.tensor(padded, device=exercise.device)
    limits = {"max_new_tokens": 2 * longest + 20}
    if exercise.forced is not None:
        limits = {"min_new_tokens": exercise.forced, "max_new_tokens": exercise.forced}
    written = model.generate(
        input_ids=source,
        attention_mask=(source != SPECIAL.pad).long(),
        num_beams=exercise.beam_size,
        do_sample=False,
        length_penalty=1.0,
        early_stopping=bool(exercise.patience),
        cache_implementation=form or None,
        **limits,
    )
    return [_until_end(row) for row in written[:, 1:].tolist()]


def _until_end(row: list[int]) -> list[int]:
    return row[: row.index(SPECIAL.end)] if SPECIAL.end in row else row


def _model(exercise: Exercise) -> Any:
    config = exercise.config
    first = config["norm_order"] == "pre"
    shape = {
        "vocab_size": exercise.vocabulary,
        "d_model": config["width"],
        "encoder_layers": config["encoder_layers"],
        "decoder_layers": config["decoder_layers"],
        "encoder_attention_heads": config["heads"],
        "decoder_attention_heads": config["heads"],
        "encoder_ffn_dim": config["feedforward_width"],
        "decoder_ffn_dim": config["feedforward_width"],
        "activation_function": config["activation"],
        "scale_embedding": config["scale_embedding"],
        "max_position_embeddings": _LONGEST,
        "pad_token_id": SPECIAL.pad,
        "bos_token_id": SPECIAL.start,
        "eos_token_id": SPECIAL.end,
        "decoder_start_token_id": getattr(SPECIAL, config["start_token"]),
        "forced_eos_token_id": None,
    }
    model: Any = (
        PegasusForConditionalGeneration(PegasusConfig(**shape))
        if first
        else MarianMTModel(MarianConfig(**shape))
    )
    missing, extra = model.load_state_dict(_weights(exercise), strict=False)
    assert not extra, extra
    assert set(missing) <= {"final_logits_bias", "model.shared.weight"}, missing
    model.to(exercise.device, torch.bfloat16 if exercise.half else torch.float32)
    return model.eval()


def _weights(exercise: Exercise) -> Weights:
    ours = weights_of(random_or_stored(exercise))
    found = renamed(
        ours,
        encoder=Stack("model.encoder.layers", "model.encoder.layer_norm", BLOCK),
        decoder=Stack("model.decoder.layers", "model.decoder.layer_norm", BLOCK),
    )
    names = ["model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"]
    for name, table in zip(names, tables(ours), strict=True):
        found[f"{name}.weight"] = table
    for side in ("encoder", "decoder"):
        places = torch.from_numpy(positions(exercise.config, _LONGEST))
        found[f"model.{side}.embed_positions.weight"] = places
    return found

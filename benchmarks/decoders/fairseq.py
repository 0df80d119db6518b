"""fairseq 0.12.2 by its own batches and `SequenceGenerator`, as `fairseq-generate` uses them.

Its sinusoids have other rates than the paper's, so it is given ours; its dictionary begins with
other marks, so our tables are put in its order.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import peers.fairseq_patch  # noqa: F401  (before fairseq is imported)

# isort: split
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from decoders import words
from decoders.bart_names import BLOCK
from decoders.weights import Stack, Weights, positions, read, renamed, require, tables
from exercise import Exercise

READS_TEXT = False
BATCHES = (200, 100)  # sentences at once, greedily and with beams
_ORDER = [words.START, words.PAD, words.END, words.UNKNOWN]  # its ids to ours


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A model of its own kind, with our weights."""
    require(exercise.config)
    dictionary = Dictionary()
    for word in words.vocabulary(exercise.vocabulary)[len(_ORDER) :]:
        dictionary.add_symbol(word)
    task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    model = _model(exercise, task)
    options = Namespace(beam=exercise.beam_size, max_len_a=2, max_len_b=20)
    generator = task.build_generator([model], options)

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        source = [torch.tensor([*ids, dictionary.eos()]) for ids in sentences]
        lengths = torch.tensor([len(ids) for ids in source])
        batches = task.get_batch_iterator(
            task.build_dataset_for_inference(source, lengths),
            max_sentences=exercise.at_once(*BATCHES),
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)
        found: dict[int, list[int]] = {}
        for batch in batches:
            best = generator.generate([model], batch, bos_token=dictionary.bos())
            for number, hypotheses in zip(batch["id"].tolist(), best, strict=True):
                found[number] = hypotheses[0]["tokens"].tolist()[:-1]  # without its end mark
        return [found[number] for number in range(len(sentences))]

    return translate


def _model(exercise: Exercise, task: Any) -> Any:
    config = exercise.config
    first = config["norm_order"] == "pre"
    options = Namespace(share_all_embeddings=config["tied_embeddings"] == "all")
    for side in ("encoder", "decoder"):
        vars(options).update(
            {
                f"{side}_layers": config[f"{side}_layers"],
                f"{side}_embed_dim": config["width"],
                f"{side}_ffn_embed_dim": config["feedforward_width"],
                f"{side}_attention_heads": config["heads"],
                f"{side}_normalize_before": first,
            }
        )
    base_architecture(options)
    model = TransformerModel.build_model(options, task)
    missing, extra = model.load_state_dict(_weights(exercise), strict=False)
    assert not extra, extra
    assert all(name.endswith("_float_tensor") for name in missing), missing
    table = torch.from_numpy(positions(config, 1024))
    for side in (model.encoder, model.decoder):
        blank = torch.zeros(side.padding_idx + 1, table.shape[1])
        side.embed_positions.weights = torch.cat([blank, table])
    model.eval()
    model.make_generation_fast_()
    return model


def _weights(exercise: Exercise) -> Weights:
    ours = read(exercise.weights)
    found = renamed(
        ours,
        encoder=Stack("encoder.layers", "encoder.layer_norm", BLOCK),
        decoder=Stack("decoder.layers", "decoder.layer_norm", BLOCK),
    )
    names = ["encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"]
    for name, table in zip(names, tables(ours), strict=True):
        found[f"{name}.weight"] = torch.cat([table[_ORDER], table[len(_ORDER) :]])
    for side in ("encoder", "decoder"):
        found[f"{side}.version"] = torch.tensor([3.0])  # older ones have no norm after their blocks
    return found

"""fairseq 0.12.2 with its batch iterator and `SequenceGenerator`, as in `fairseq-generate`.

Its sinusoids have other frequencies than the paper's, so they are replaced by regard's; its
dictionary has another order of special tokens, so the embedding tables are reordered.
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

from decoders import token_words
from decoders.bart_names import BLOCK
from decoders.weights import (
    Stack,
    Weights,
    embedding_tables,
    position_table,
    read_weights,
    rename_weights,
    require_supported,
)
from decoding_task import DecodingTask

READS_TEXT = False
BATCH_SIZES = (200, 100)  # sentences, for greedy and for beam search
_ORDER = [
    token_words.BOS,
    token_words.PAD,
    token_words.EOS,
    token_words.UNK,
]  # fairseq's ids to regard's


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function of a fairseq model with regard's weights."""
    require_supported(task.config)
    dictionary = Dictionary()
    for word in token_words.vocabulary(task.vocabulary)[len(_ORDER) :]:
        dictionary.add_symbol(word)
    translation_task = TranslationTask(TranslationConfig(), dictionary, dictionary)
    model = _model(task, translation_task)
    options = Namespace(beam=task.beam_size, max_len_a=2, max_len_b=20)
    generator = translation_task.build_generator([model], options)

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        source = [torch.tensor([*ids, dictionary.eos()]) for ids in sentences]
        lengths = torch.tensor([len(ids) for ids in source])
        batches = translation_task.get_batch_iterator(
            translation_task.build_dataset_for_inference(source, lengths),
            max_sentences=task.choose_batch_size(*BATCH_SIZES),
            disable_iterator_cache=True,
        ).next_epoch_itr(shuffle=False)
        translations: dict[int, list[int]] = {}
        for batch in batches:
            best = generator.generate([model], batch, bos_token=dictionary.bos())
            for number, hypotheses in zip(batch["id"].tolist(), best, strict=True):
                translations[number] = hypotheses[0]["tokens"].tolist()[:-1]  # without EOS
        return [translations[number] for number in range(len(sentences))]

    return translate


def _model(task: DecodingTask, translation_task: Any) -> Any:
    config = task.config
    first = config["norm_order"] == "pre"
    options = Namespace(share_all_embeddings=config["tied_embeddings"] == "all")
    for side in ("encoder", "decoder"):
        vars(options).update(
            {
                f"{side}_layers": config[f"num_{side}_layers"],
                f"{side}_embed_dim": config["d_model"],
                f"{side}_ffn_embed_dim": config["ffn_dim"],
                f"{side}_attention_heads": config["num_heads"],
                f"{side}_normalize_before": first,
            }
        )
    base_architecture(options)
    model = TransformerModel.build_model(options, translation_task)
    missing, extra = model.load_state_dict(_weights(task), strict=False)
    assert not extra, extra
    assert all(name.endswith("_float_tensor") for name in missing), missing
    table = torch.from_numpy(position_table(config, 1024))
    for side in (model.encoder, model.decoder):
        blank = torch.zeros(side.padding_idx + 1, table.shape[1])
        side.embed_positions.weights = torch.cat([blank, table])
    model.eval()
    model.make_generation_fast_()
    return model


def _weights(task: DecodingTask) -> Weights:
    ours = read_weights(task.weights)
    weights = rename_weights(
        ours,
        encoder=Stack("encoder.layers", "encoder.layer_norm", BLOCK),
        decoder=Stack("decoder.layers", "decoder.layer_norm", BLOCK),
    )
    names = ["encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"]
    for name, table in zip(names, embedding_tables(ours), strict=True):
        weights[f"{name}.weight"] = torch.cat([table[_ORDER], table[len(_ORDER) :]])
    for side in ("encoder", "decoder"):
        weights[f"{side}.version"] = torch.tensor([3.0])  # older versions have no final norm
    return weights

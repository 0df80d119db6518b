"""HuggingFace's `MarianMTModel` with a training loop of our own around it.

Its loss knows no label smoothing, so the loss is taken from its logits.
"""

from __future__ import annotations

from torch import Tensor

from lesson import Lesson
from peers.padded import Padded, PaddedLearner
from regard.text.special import SPECIAL

NAME = "HuggingFace Marian"
FORMS = {"cpu": ["", "compiled"], "cuda": ["", "compiled"]}


def learner(lesson: Lesson, form: str) -> PaddedLearner:
    """A fresh model."""
    from transformers import MarianConfig, MarianMTModel

    size = lesson.size
    config = MarianConfig(
        vocab_size=lesson.vocabulary,
        d_model=size.width,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=size.feedforward,
        decoder_ffn_dim=size.feedforward,
        dropout=lesson.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        init_std=size.width**-0.5,
        use_cache=False,
        pad_token_id=SPECIAL.pad,
        eos_token_id=SPECIAL.end,
        bos_token_id=SPECIAL.start,
        decoder_start_token_id=SPECIAL.start,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)

    def logits(batch: Padded) -> Tensor:
        found = model(
            input_ids=batch.source, attention_mask=batch.real, decoder_input_ids=batch.inputs
        )
        scores: Tensor = found.logits
        return scores

    return PaddedLearner(lesson, model, logits, form)

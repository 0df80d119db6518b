"""HuggingFace's `MarianMTModel` in a plain training loop.

Its loss does not support label smoothing, so the loss is computed from its logits.
"""

from __future__ import annotations

from torch import Tensor

from peers.padded import PaddedBatch, PaddedTrainer
from regard.text.special import SPECIAL
from training_task import TrainingTask

NAME = "HuggingFace Marian"
VARIANTS = {"cpu": ["", "compiled"], "cuda": ["", "compiled"]}


def trainer(task: TrainingTask, variant: str) -> PaddedTrainer:
    """A trainer of a new model."""
    from transformers import MarianConfig, MarianMTModel

    size = task.size
    config = MarianConfig(
        vocab_size=task.vocabulary,
        d_model=size.d_model,
        encoder_layers=size.num_layers,
        decoder_layers=size.num_layers,
        encoder_attention_heads=size.num_heads,
        decoder_attention_heads=size.num_heads,
        encoder_ffn_dim=size.ffn_dim,
        decoder_ffn_dim=size.ffn_dim,
        dropout=task.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=512,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        init_std=size.d_model**-0.5,
        use_cache=False,
        pad_token_id=SPECIAL.pad,
        eos_token_id=SPECIAL.eos,
        bos_token_id=SPECIAL.bos,
        decoder_start_token_id=SPECIAL.bos,
        forced_eos_token_id=None,
    )
    model = MarianMTModel(config)

    def logits(batch: PaddedBatch) -> Tensor:
        outputs = model(
            input_ids=batch.source, attention_mask=batch.mask, decoder_input_ids=batch.inputs
        )
        scores: Tensor = outputs.logits
        return scores

    return PaddedTrainer(task, model, logits, variant)

"""Models that rerank candidate translations by their log-probs.

A reranker is a translation model of the same direction (such as a right-to-left model) or of the
reverse direction (the channel model of a noisy channel), or a causal language model. It scores
texts with its own tokenizers, which need not be those of the translating model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import torch

from regard.data.batch import Batch
from regard.data.model_text import ModelText
from regard.decoding.backend import DEFAULT_BATCH_SIZE
from regard.decoding.pair_batches import map_pairs_by_length
from regard.decoding.score import score_pairs
from regard.errors import ConfigError
from regard.foreign_models import refuse_exported
from regard.models.base import Model
from regard.models.folder import ModelFolder, load_model

_GPU_BATCH_SIZE = 512  # pairs


class Role(Enum):
    """Which probability a reranker computes."""

    SAME_DIRECTION = "p(translation | source)"
    REVERSE_DIRECTION = "p(source | translation)"
    LANGUAGE_MODEL = "p(translation)"


@dataclass(frozen=True)
class Reranker:
    """A model that scores translations."""

    model: Model
    text: ModelText
    role: Role

    @staticmethod
    def load(path: Path, translating: ModelText, device: torch.device) -> Reranker:
        """Load a reranker for the translations of a model."""
        folder = ModelFolder.read(path)
        role = find_role(path, folder, translating)
        refuse_exported(path)
        _, model = load_model(path, device, folder)
        if model.scoring_unsupported_reason:
            raise ConfigError(f"{path} cannot rerank. {model.scoring_unsupported_reason}")
        return Reranker(model, folder.text, role)

    def score(self, sources: Sequence[str], translations: Sequence[str]) -> list[float]:
        """The mean log-prob, per token, of each translation or source."""
        given, scored = self.text.tokenizers.source, self.text.tokenizers.target
        inputs = translations if self.role is Role.REVERSE_DIRECTION else sources
        outputs = sources if self.role is Role.REVERSE_DIRECTION else translations
        if self.role is Role.LANGUAGE_MODEL:
            inputs = [""] * len(outputs)
        pairs = zip(given.encode_all(inputs), scored.encode_all(outputs), strict=True)
        # Texts that are too long for the model are scored up to its maximum length.
        limit = (self.model.max_length or 1 << 30) - 1
        fitting = [(source[:limit], target[:limit]) for source, target in pairs]
        device = self.model.device
        batch_size = _GPU_BATCH_SIZE if device.type == "cuda" else DEFAULT_BATCH_SIZE
        return map_pairs_by_length(fitting, device, batch_size, self._score_batch)

    def _score_batch(self, batch: Batch) -> list[float]:
        if self.role is Role.LANGUAGE_MODEL:
            inputs = batch.target.shifted_right(self.model.config.decoder_start_id)
            batch = Batch(inputs, batch.target)
        return score_pairs([self.model], batch)


def find_role(path: Path, folder: ModelFolder, translating: ModelText) -> Role:
    """The role of a model for the translations of another; raises an error if it has none."""
    if translating.directions or folder.directions:
        raise ConfigError(
            f"{path} cannot rerank: rerank (--rerank) supports models of one direction only, for "
            "the reranker and for the model whose translations it reranks. Leave out --rerank."
        )
    languages, config = translating.languages, folder.config
    if not config.translates:
        is_causal = config.autoregressive and config.context and not config.predicts_labels
        if not is_causal or config.has_memory:
            raise ConfigError(
                f"{path} is a model for {config.task.replace('_', ' ')} (model kind "
                f"{config.kind!r}), which cannot rerank translations. Use a translation model or a "
                "causal language model."
            )
        language = folder.languages["target"]
        if language and languages["target"] and language != languages["target"]:
            raise ConfigError(
                f"{path} is a language model of {language}, but the translations are in "
                f"{languages['target']}. Use a language model of {languages['target']}."
            )
        return Role.LANGUAGE_MODEL
    known = languages["source"], languages["target"]
    direction = folder.languages["source"], folder.languages["target"]
    if None in (*known, *direction):
        raise ConfigError(
            f"{path} cannot rerank, because a direction is unknown: it translates "
            f"{folder.direction}, and the model that it reranks "
            f'{" to ".join(name or "?" for name in known)}. Set "languages" in their config.json, '
            "or prepare the data with --source-lang and --target-lang."
        )
    if direction == known:
        return Role.SAME_DIRECTION
    if direction == known[::-1]:
        return Role.REVERSE_DIRECTION
    raise ConfigError(
        f"{path} translates {folder.direction}, so it cannot rerank translations from {known[0]} "
        f"to {known[1]}. Use a model of this direction, of the reverse one, or a language model."
    )

"""COMET as a utility for minimum Bayes risk decoding (Rei et al., 2022, WMT 2022).

Requires the package unbabel-comet and a local checkpoint of a regression model with references.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.backends.utilities import Floats, Utility
from regard.errors import ConfigError, ModelError

_BATCH_SIZE = 64  # sentences that are encoded at once
_PAIRS = 4096  # that are scored at once


@lru_cache(maxsize=1)
def load_comet(checkpoint: Path, device: torch.device) -> Utility:
    """The utility of a COMET checkpoint: COMET of each text against each other as reference."""
    if find_spec("comet") is None:
        raise ConfigError(
            "mbr=comet requires the package unbabel-comet, which is not installed. Install it with "
            "pip install unbabel-comet, or use --mbr chrf."
        )
    if not checkpoint.is_file():
        raise ConfigError(
            f"There is no COMET checkpoint {checkpoint}. Give the file model.ckpt of a downloaded "
            "COMET model with --comet-checkpoint."
        )
    from comet import load_from_checkpoint  # type: ignore[import-not-found]
    from comet.models import RegressionMetric  # type: ignore[import-not-found]

    try:
        metric = load_from_checkpoint(str(checkpoint), local_files_only=True)
    except Exception as error:  # of several libraries
        raise ModelError(
            f"COMET cannot load {checkpoint}: {error}. The checkpoint must have its hparams.yaml, "
            "and its pre-trained encoder must be in the cache of HuggingFace."
        ) from None
    if not isinstance(metric, RegressionMetric):
        raise ConfigError(
            f"{checkpoint} is not a COMET regression model with references. Use a model such as "
            "wmt22-comet-da."
        )
    return CometUtility(metric.to(device).eval(), device)


class CometUtility:
    """Encodes each text once, and scores all pairs of the encoded texts."""

    def __init__(self, metric: Any, device: torch.device) -> None:
        self._metric, self._device = metric, device

    @torch.inference_mode()
    def __call__(self, source: str, texts: Sequence[str]) -> Floats:
        """The COMET score of each text against each other as reference. (n, n)"""
        [source_vector, *vectors] = self._encode([source, *texts])
        references = torch.stack(vectors)
        count = len(texts)
        rows: list[Tensor] = []
        step = max(1, _PAIRS // count)
        for part in references.split(step):
            pairs = len(part) * count
            scores = self._metric.estimate(
                source_vector.expand(pairs, -1),
                part.repeat_interleave(count, 0),
                references.repeat(len(part), 1),
            )["score"]
            rows.append(scores.float().view(len(part), count))
        return np.asarray(torch.cat(rows).cpu(), dtype=np.float64)

    def _encode(self, texts: Sequence[str]) -> Tensor:
        """The sentence vector of each text."""
        vectors = []
        for start in range(0, len(texts), _BATCH_SIZE):
            inputs = self._metric.encoder.prepare_sample([*texts[start : start + _BATCH_SIZE]])
            on_device = (inputs[name].to(self._device) for name in ("input_ids", "attention_mask"))
            vectors.append(self._metric.get_sentence_embedding(*on_device))
        return torch.cat(vectors)

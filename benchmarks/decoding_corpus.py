"""A test corpus and a trained model, in the formats that the systems read."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decoders.runners import TextEvaluator
from decoding_task import DecodingTask
from regard.backends.lazy_models import require_autoregressive
from regard.backends.torch_backend import TorchBackend
from regard.decoding.backend import Request, search_requests
from regard.decoding.config import SearchConfig
from regard.errors import RegardError
from regard.exchange.ctranslate2 import write_model
from regard.models.folder import load_model, named_weights
from regard.settings_tree import to_tree


class DecodingCorpus:
    """Source sentences, reference translations, and a trained model."""

    def __init__(
        self, source: list[str], references: list[str], folder: Path, work: Path, device: str
    ) -> None:
        self.source = source
        self._references = references
        self._folder, self._model = load_model(folder, torch.device("cpu"))
        work.mkdir(parents=True, exist_ok=True)
        self._base = DecodingTask(
            device,
            beam_size=1,
            sentences=[self._folder.tokenizers.source.encode(line) for line in source],
            config=to_tree(self._folder.config),
            vocabulary=self._folder.vocabulary.target,
            work=str(work.resolve()),
            lines=source,
            folder=str(folder.resolve()),
            use_bfloat16=device == "cuda",
        )
        self._expected: dict[SearchConfig, list[str]] = {}
        weights: Any = {name: weight.numpy() for name, weight in named_weights(self._model).items()}
        np.savez(self._base.weights, **weights)

    def task(
        self,
        beam_size: int,
        patience: float = 0.0,
        *,
        one_by_one: int | None = None,
        batch_size: int | None = None,
    ) -> DecodingTask:
        """All sentences in batches, or the first `one_by_one` sentences one by one."""
        return dataclasses.replace(
            self._base,
            beam_size=beam_size,
            patience=patience,
            sentences=self._base.sentences[:one_by_one],
            lines=self.source[:one_by_one],
            one_by_one=one_by_one is not None,
            batch_size=batch_size,
        )

    def evaluator(self, task: DecodingTask) -> TextEvaluator:
        """An evaluator that compares with the output of regard's PyTorch backend."""
        search = SearchConfig(beam_size=task.beam_size, patience=task.patience)
        if search not in self._expected:
            backend = TorchBackend([require_autoregressive(self._model)], torch.device("cpu"))
            requests = [Request(ids, []) for ids in self._base.sentences]
            hypotheses = dict(search_requests(backend, requests, search, None))
            best = [hypotheses[number][0].tokens for number in range(len(requests))]
            decode = self._folder.tokenizers.target.decode
            self._expected[search] = [decode(ids) for ids in best]
        target = self._folder.tokenizers.target
        return TextEvaluator(target, self._expected[search], self._references)

    def export(self) -> str | None:
        """Export the model for CTranslate2; returns the reason if that is not possible."""
        out = Path(self._base.work) / "ctranslate2"
        shutil.rmtree(out, ignore_errors=True)
        try:
            write_model(self._folder, self._model, out)
        except RegardError as reason:
            return str(reason)
        return None

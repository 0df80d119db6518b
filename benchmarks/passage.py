"""A text and a model that translates it, as everybody wants them: arrays, ids, other formats."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decoders.contestants import TextJudge
from exercise import Exercise
from regard.config import as_tree
from regard.decoding.choice import word_by_word
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Job
from regard.decoding.torch_engine import TorchEngine
from regard.errors import RegardError
from regard.exchange.ctranslate2 import write_model
from regard.models.folder import load_model, weights_of


class Passage:
    """Sentences, what people made of them, and a trained model."""

    def __init__(
        self, source: list[str], references: list[str], folder: Path, work: Path, device: str
    ) -> None:
        self.source = source
        self._references = references
        self._folder, self._model = load_model(folder, torch.device("cpu"))
        work.mkdir(parents=True, exist_ok=True)
        self._plain = Exercise(
            device,
            beam_size=1,
            sentences=[self._folder.tokenizers.source.encode(line) for line in source],
            config=as_tree(self._folder.config),
            vocabulary=self._folder.vocabulary.target,
            work=str(work.resolve()),
            lines=source,
            folder=str(folder.resolve()),
            half=device == "cuda",
        )
        self._expected: dict[SearchConfig, list[str]] = {}
        weights: Any = {name: weight.numpy() for name, weight in weights_of(self._model).items()}
        np.savez(self._plain.weights, **weights)

    def exercise(
        self, beam_size: int, patience: float = 0.0, *, one_by_one: int | None = None
    ) -> Exercise:
        """All sentences at once, or so many of them one by one."""
        return dataclasses.replace(
            self._plain,
            beam_size=beam_size,
            patience=patience,
            sentences=self._plain.sentences[:one_by_one],
            lines=self.source[:one_by_one],
            one_by_one=one_by_one is not None,
        )

    def judge(self, exercise: Exercise) -> TextJudge:
        """Compares with what regard's own search writes, line by line."""
        search = SearchConfig(beam_size=exercise.beam_size, patience=exercise.patience)
        if search not in self._expected:
            engine = TorchEngine([word_by_word(self._model)], torch.device("cpu"))
            jobs = [Job(ids, []) for ids in self._plain.sentences]
            found = dict(engine.search(jobs, search, None))
            best = [found[number][0].tokens for number in range(len(jobs))]
            decode = self._folder.tokenizers.target.decode
            self._expected[search] = [decode(ids) for ids in best]
        target = self._folder.tokenizers.target
        return TextJudge(target, self._expected[search], self._references)

    def export(self) -> str | None:
        """Write the model for CTranslate2; why that was not possible, or None."""
        out = Path(self._plain.work) / "ctranslate2"
        shutil.rmtree(out, ignore_errors=True)
        try:
            write_model(self._folder, self._model, out)
        except RegardError as reason:
            return str(reason)
        return None

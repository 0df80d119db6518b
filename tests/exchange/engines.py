"""Small models with random weights, in CTranslate2 and in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from regard.decoding.config import SearchConfig
from regard.decoding.ctranslate2_engine import CTranslate2Engine
from regard.decoding.engine import Engine, Hypothesis, Job
from regard.decoding.torch_engine import TorchEngine
from regard.exchange.ctranslate2 import WeightPrecision, write_model
from regard.models.folder import ModelFolder, Training
from regard.models.transformer import Transformer

MARKS = ["<pad>", "<unk>", "<s>", "</s>"]


class Numbers:
    """As much of a tokenizer as an engine sees: each id has a name."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [MARKS[i] if i < len(MARKS) else f"▁{i}" for i in ids]


class NumbersOfBothSides:
    """As much of `Tokenizers` as an engine sees."""

    def __init__(self, model: Transformer) -> None:
        self.source = Numbers(model.vocabulary.source)
        self.target = Numbers(model.vocabulary.target)


def described(model: Transformer) -> ModelFolder:
    """A model folder that was never written."""
    tokenizers: Any = NumbersOfBothSides(model)
    languages: dict[str, str | None] = {"source": "en", "target": "de"}
    return ModelFolder(model.config, model.vocabulary, tokenizers, languages, Training(9, 0.0))


def in_ctranslate2(
    model: Transformer, place: Path, precision: WeightPrecision = "float32"
) -> CTranslate2Engine:
    """A model, handed over."""
    folder = described(model)
    write_model(folder, model, place / precision, precision=precision)
    return CTranslate2Engine(place / precision, folder.tokenizers)


def in_torch(model: Transformer) -> TorchEngine:
    """A model as it is."""
    return TorchEngine([model], torch.device("cpu"))


def found(
    engine: Engine,
    sources: Sequence[list[int]],
    *,
    begins: Sequence[list[int]] | None = None,
    batch_size: int | None = None,
    **settings: Any,
) -> list[list[Hypothesis]]:
    """What an engine finds for each source, in their order."""
    begins = begins or [[] for _ in sources]
    jobs = [Job(source, begin) for source, begin in zip(sources, begins, strict=True)]
    every = sorted(engine.search(iter(jobs), SearchConfig(**settings), batch_size))
    assert [one.job for one in every] == list(range(len(jobs)))
    return [one.hypotheses for one in every]

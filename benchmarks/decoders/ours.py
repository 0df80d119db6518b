"""Regard itself, as it comes: text in, text out, by either of its engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from exercise import Exercise
from regard.config import build
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Job
from regard.decoding.torch_engine import TorchEngine
from regard.decoding.translator import Translator
from regard.devices import device_named, keep_freed_memory
from regard.models.folder import load_model
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig

READS_TEXT = True


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Text to text, or ids to ids where sentences are made up."""
    keep_freed_memory()  # as the command does
    if exercise.folder is None:
        return _search(exercise)
    engine, _, precision = form.partition(" ")
    translator = Translator.load(
        exercise.folder, device=exercise.device, backend=engine, precision=precision or None
    )

    def translate(lines: Sequence[str]) -> list[str]:
        found = translator.translate(
            lines,
            batch_size=exercise.batch_size,
            beam_size=exercise.beam_size,
            patience=exercise.patience,
            scores=False,  # as the command does when it writes text alone
        )
        return [translation.text for translation in found]

    return translate


def _search(exercise: Exercise) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """What the translator does between cutting text into subwords and joining them."""
    device = device_named(exercise.device)
    model = random_or_stored(exercise).to(device).eval()
    engine = TorchEngine([model], device, "bfloat16" if exercise.half else "float32")
    config = SearchConfig(beam_size=exercise.beam_size)
    if exercise.forced is not None:
        config = SearchConfig(
            beam_size=exercise.beam_size,
            min_length=exercise.forced - 1,
            max_ratio=0.0,
            max_extra=exercise.forced,
        )

    def search(sentences: Sequence[list[int]]) -> list[list[int]]:
        jobs = [Job(ids, []) for ids in sentences]
        found = dict(engine.search(jobs, config, exercise.batch_size))
        return [found[number][0].tokens for number in range(len(jobs))]

    return search


def random_or_stored(exercise: Exercise) -> Transformer:
    """The model on the CPU; with random weights, the same ones in every process."""
    if exercise.folder is not None:
        _, model = load_model(Path(exercise.folder), torch.device("cpu"))
        assert isinstance(model, Transformer)
        return model
    torch.manual_seed(exercise.seed)
    config = build(TransformerConfig, exercise.config, "model.")
    return Transformer(config, Vocabulary(exercise.vocabulary, exercise.vocabulary))

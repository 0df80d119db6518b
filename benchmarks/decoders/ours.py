"""Regard itself, as it comes: text in, text out, by either of its engines."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from exercise import Exercise
from regard.config import build
from regard.decoding.config import SearchConfig
from regard.decoding.engine import Job, TorchEngine
from regard.decoding.translator import Translator
from regard.devices import device_named
from regard.models.folder import load_model
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig

READS_TEXT = True
_BATCH = 64  # as the command has it


def decoder(exercise: Exercise, form: str) -> Callable[[Sequence[Any]], list[Any]]:
    """Text to text, or ids to ids where sentences are made up."""
    if exercise.folder is None:
        return _search(exercise)
    translator = _loaded(exercise.folder, exercise.device, form)

    def translate(lines: Sequence[str]) -> list[str]:
        options: Any = {"batch_size": exercise.batch_size} if exercise.batch_size else {}
        found = translator.translate(lines, beam_size=exercise.beam_size, **options)
        return [translation.text for translation in found]

    return translate


def _loaded(folder: str, device: str, form: str) -> Translator:
    engine, _, precision = form.partition(" ")
    if "engine" not in inspect.signature(Translator.load).parameters:
        if engine == "torch":
            return Translator.load(folder, device=device)
        sys.exit(f"This regard has no engine {engine}.")
    options: Any = {"engine": engine, "precision": precision or None}
    return Translator.load(folder, device=device, **options)


def _search(exercise: Exercise) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """What the translator does between cutting text into subwords and joining them."""
    model = random_or_stored(exercise).eval()
    device = device_named(exercise.device)
    engine = TorchEngine([model.to(device)], device, "bfloat16" if exercise.half else "float32")
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
        found = engine.search(jobs, config, exercise.batch_size or _BATCH)
        return [best.tokens for best, *_ in found]

    return search


def random_or_stored(exercise: Exercise) -> Transformer:
    """The model on the CPU; with random weights, the same ones in every process."""
    if exercise.folder is not None:
        return load_model(Path(exercise.folder), torch.device("cpu"))[1]
    torch.manual_seed(exercise.seed)
    config = build(TransformerConfig, exercise.config, "model.")
    return Transformer(config, Vocabulary(exercise.vocabulary, exercise.vocabulary))

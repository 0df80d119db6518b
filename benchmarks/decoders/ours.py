"""regard with its default settings, with either of its backends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from decoding_task import DecodingTask
from regard.backends.torch_backend import TorchBackend
from regard.config import build
from regard.decoding.backend import Request, search_requests
from regard.decoding.config import SearchConfig
from regard.devices import resolve_device
from regard.machine import keep_freed_memory
from regard.models.folder import load_model
from regard.models.protocol import Vocabulary
from regard.models.transformer import Transformer, TransformerConfig
from regard.pipelines.translator import Translator

READS_TEXT = True


def decoder(task: DecodingTask, variant: str) -> Callable[[Sequence[Any]], list[Any]]:
    """A translation function of text, or of ids if the sentences are synthetic."""
    keep_freed_memory()  # as the command does
    if task.folder is None:
        return _id_decoder(task)
    backend, _, precision = variant.partition(" ")
    translator = Translator.load(
        task.folder, device=task.device, backend=backend, precision=precision or None
    )

    def translate(lines: Sequence[str]) -> list[str]:
        translations = translator.translate(
            lines,
            batch_size=task.batch_size,
            beam_size=task.beam_size,
            patience=task.patience,
            scores=False,  # as the command does if it prints only text
        )
        return [translation.text for translation in translations]

    return translate


def _id_decoder(task: DecodingTask) -> Callable[[Sequence[list[int]]], list[list[int]]]:
    """A translation function without tokenization."""
    device = resolve_device(task.device)
    model = load_or_initialize(task).to(device).eval()
    backend = TorchBackend([model], device, "bfloat16" if task.use_bfloat16 else "float32")
    config = SearchConfig(beam_size=task.beam_size)
    if task.forced_length is not None:
        config = SearchConfig(
            beam_size=task.beam_size,
            min_length=task.forced_length - 1,
            max_ratio=0.0,
            max_extra=task.forced_length,
        )

    def search(sentences: Sequence[list[int]]) -> list[list[int]]:
        requests = [Request(ids, []) for ids in sentences]
        hypotheses = dict(search_requests(backend, requests, config, task.batch_size))
        return [hypotheses[number][0].tokens for number in range(len(requests))]

    return search


def load_or_initialize(task: DecodingTask) -> Transformer:
    """The task's model on the CPU; random weights are the same in every process."""
    if task.folder is not None:
        _, model = load_model(Path(task.folder), torch.device("cpu"))
        assert isinstance(model, Transformer)
        return model
    torch.manual_seed(task.seed)
    config = build(TransformerConfig, task.config, "model.")
    return Transformer(config, Vocabulary(task.vocabulary, task.vocabulary))
